"""The conclusion of a study of servers, and the words of its report for loads."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from math import ceil
from typing import Any, get_args

from trio_profile import units
from trio_profile.judge.deploy import Candidate, Words, decide
from trio_profile.judge.doubts import TRANSPARENT, Doubt
from trio_profile.judge.evidence import Evidence, why_no_answers
from trio_profile.judge.sureness import Weakness
from trio_profile.kinds.servers.document import AtLoad, EndpointsDocument
from trio_profile.kinds.servers.doubts import FAILURES
from trio_profile.kinds.servers.quantities import QUANTITIES
from trio_profile.kinds.servers.study import Loop
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.schema import first_command
from trio_profile.stats.intervals import most_lost, widened
from trio_profile.text import listed, with_option

UNRELATED = (*FAILURES, "no right answers", TRANSPARENT)
"""The kinds of doubt that say nothing of a gain, or that are said as evidence."""


def load_word(loop: Loop) -> str:
    """The name of a load of a loop."""
    return "concurrency" if loop == "closed" else "rate"


def by_loop(document: EndpointsDocument) -> dict[Loop, list[AtLoad]]:
    """The loads of each loop that was measured."""
    return {loop: loads for loop in get_args(Loop) if (loads := [at for at in document.loads if at.loop == loop])}


def is_unpruned(document: EndpointsDocument) -> bool:
    """Whether the pruned server reports as many tokens of a prompt as the dense one, or more."""
    return any(doubt.kind == "prompt length" and doubt.threshold > 0 for doubt in document.doubts)


def failures(document: EndpointsDocument) -> list[str]:
    """Sentences on the requests that the servers did not answer; empty if they answered all."""
    return [doubt.sentence for doubt in document.doubts if doubt.kind in FAILURES]


def conclude(document: EndpointsDocument) -> Conclusion:
    """Return the conclusion of a study of servers: whether pruning pays, and under which loads."""
    loops = by_loop(document)
    quantities = {loop: main_quantity(loop, loads) for loop, loads in loops.items()}
    gains = [(at, gain) for at in document.loads if (gain := at.gains.get(quantities[at.loop])) is not None]
    lost = None if document.answers is None else document.answers.difference
    candidates = [
        Candidate(
            name=units.load(at.load) if len(loops) == 1 else f"a {load_word(at.loop)} of {units.load(at.load)}",
            gain=widened(gain.ci95, len(gains), gain.samples, of_ratio=True),
            loss=None if lost is None else (-lost.ci95[1], max(-lost.ci95[0], most_lost(0, lost.samples))),
            lost=0.0 if lost is None else -lost.value,
            weaknesses=tuple(_weaknesses(document)),
        )
        for at, gain in gains
    ]
    labels = {QUANTITIES[name].label for name in quantities.values()}
    words = Words(
        noun="load",
        gain=f"the gain in {listed(sorted(labels))} is {{}}",
        named=f"a {load_word(next(iter(loops)))} of {{}}" if len(loops) == 1 else "{}",
        together="prune at {}",
        next=_next(document),
    )
    return decide(candidates, _evidence(document), words)[0]


def _evidence(document: EndpointsDocument) -> Evidence:
    """Return what the study can say."""
    nothing = [f"a server failed: {sentence}" for sentence in failures(document)]
    if is_unpruned(document):
        nothing.append("nothing was pruned: the pruned server reports prompts as long as the dense one's")
    answers = None if document.answers is None else document.answers.dense
    chance = None if document.answers is None else document.answers.chance
    return Evidence(nothing="; ".join(nothing), answers=why_no_answers(answers, chance))


def _weaknesses(document: EndpointsDocument) -> Iterator[Weakness]:
    """Yield what makes the gains unsure."""
    if document.pairs_left:
        pairs = units.number_of(document.study.pairs, "pair")
        yield Weakness("low", f"{units.exact(document.pairs_left)} of {pairs} of segments are not measured yet")
    if len(document.sessions) < 2:
        yield Weakness("low", "the servers were started once, and another start may differ by more than the interval")
    for doubt in document.doubts:
        if doubt.kind not in UNRELATED:
            yield Weakness("low", doubt.sentence)


def _next(document: EndpointsDocument) -> Callable[[str, Candidate], dict[str, Any]]:
    """Return what makes the field `next`: the command that would decide, or that would end the doubts."""
    command, study = first_command(document.sessions), document.study
    longer = max((_longer(doubt) for doubt in document.doubts), default=1.0)

    def step(word: str, best: Candidate) -> dict[str, Any]:
        if not command or word == "do not":
            return {}
        if document.pairs_left:
            return {"next": command}
        options = {"rounds": str(2 * study.rounds)} if best.gain[0] <= 1 else {}
        if longer > 1:
            options["requests"] = str(ceil(longer * study.requests))
            options["seconds"] = str(ceil(longer * study.segment_seconds))
        if document.answers is None:
            options["questions"] = "FILE"
        if len(document.sessions) < 2 and not options:  # each start of the servers is a session then
            options["session-rounds"] = str(ceil(study.rounds / 2))
        if not options:
            return {}
        options["out"] = "ANOTHER"  # another study has another directory
        return {"next": reduce(lambda line, name: with_option(line, name, options[name]), options, command)}

    return step


def _longer(doubt: Doubt) -> float:
    """Return how many times as long a segment would have to be, so that it leaves no such doubt; 1 for other doubts."""
    if doubt.kind == "few requests":
        return doubt.threshold / max(doubt.found, 1)
    return 2 if doubt.kind == "unsteady warm-up" else 1


def main_quantity(loop: Loop, loads: Iterable[AtLoad]) -> str:
    """The quantity that decides: the goodput, if there is one."""
    if any("goodput" in at.gains for at in loads):
        return "goodput"
    # Below its limit, a server of the open loop answers as many requests as arrive.
    return "throughput" if loop == "closed" else "ttft_p95_ms"
