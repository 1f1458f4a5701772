"""The recommendation of a study of servers, and the words of its report for loads."""

from collections.abc import Iterable, Iterator
from typing import get_args

from trio_profile import units
from trio_profile.kinds.servers.document import AtLoad, EndpointsDocument
from trio_profile.kinds.servers.doubts import FAILURES
from trio_profile.kinds.servers.quantities import QUANTITIES
from trio_profile.kinds.servers.study import Loop
from trio_profile.records.estimate import Gain
from trio_profile.text import listed

Gains = dict[float, Gain]
"""The gain in one quantity, by load."""


def load_word(loop: Loop) -> str:
    """The name of a load of a loop."""
    return "concurrency" if loop == "closed" else "rate"


def by_loop(document: EndpointsDocument) -> dict[Loop, list[AtLoad]]:
    """The loads of each loop that was measured."""
    return {loop: loads for loop in get_args(Loop) if (loads := [at for at in document.loads if at.loop == loop])}


def sides(loads: Iterable[AtLoad], quantity: str) -> tuple[Gains, Gains, Gains]:
    """The gain at the loads where pruning pays, where it does not, and where its interval contains 1."""
    gains = {at.load: at.gains[quantity] for at in loads if quantity in at.gains}
    pays = {load: gain for load, gain in gains.items() if gain.ci95[0] > 1}
    loses = {load: gain for load, gain in gains.items() if gain.ci95[1] < 1}
    return pays, loses, {load: gain for load, gain in gains.items() if load not in pays and load not in loses}


def crossing_of(document: EndpointsDocument, loop: Loop, quantity: str) -> tuple[float, tuple[float, float]] | None:
    """The load at which the gain in a quantity crosses 1, with its interval; None if it does not."""
    for line in document.break_even:
        if (line.loop, line.quantity) == (loop, quantity) and line.load is not None and line.ci95 is not None:
            return line.load, line.ci95
    return None


def is_unpruned(document: EndpointsDocument) -> bool:
    """Whether the pruned server reports as many tokens of a prompt as the dense one, or more."""
    return any(doubt.kind == "prompt length" and doubt.threshold > 0 for doubt in document.doubts)


def failures(document: EndpointsDocument) -> list[str]:
    """Sentences on the requests that the servers did not answer; empty if they answered all."""
    sentences = [doubt.sentence for doubt in document.doubts if doubt.kind in FAILURES]
    failed = sum(at.dense.errors + at.pruned.errors for at in document.loads)
    if failed and not sentences:  # an older study
        sentences.append(f"{units.number_of(failed, 'request')} failed")
    return sentences


def recommendation(document: EndpointsDocument) -> Iterator[str]:
    """Advice in a few sentences."""
    if failed := failures(document):
        yield from (f"Nothing is advised, because a server failed: {sentence}." for sentence in failed)
        return
    if is_unpruned(document):
        yield (
            "Nothing was pruned, as the servers report their prompts: the setting may be ignored for this model. Look "
            "into the log of the pruned server. The two servers may do the same work."
        )
    if document.answers is not None and document.answers.lost:
        lost = document.answers.difference
        points, questions = units.points_lost(lost.value, lost.ci95), units.number_of(lost.samples, "question")
        yield (
            f"Do not use this pruning, however fast it is: it loses {points} points of right answers to {questions}. "
            "Prune less, or ask more questions."
        )
        return
    for loop, loads in by_loop(document).items():
        yield _advice(document, loop, loads, main_quantity(loop, loads))


def main_quantity(loop: Loop, loads: Iterable[AtLoad]) -> str:
    """The quantity that decides: the goodput, if there is one."""
    if any("goodput" in at.gains for at in loads):
        return "goodput"
    # Below its limit, a server of the open loop answers as many requests as arrive.
    return "throughput" if loop == "closed" else "ttft_p95_ms"


def _advice(document: EndpointsDocument, loop: Loop, loads: Iterable[AtLoad], quantity: str) -> str:
    """Advice for the loads of one loop, by the own interval of each load and by the break-even."""
    name, word = QUANTITIES[quantity].label, load_word(loop)
    pays, loses, open_loads = sides(loads, quantity)
    sentences: list[str] = []
    for advice, gains in (("Use pruning", pays), ("Use the dense model", loses)):
        if gains:
            values = listed([units.times(gain.value, gain.ci95) for gain in gains.values()])
            sentences.append(f"{advice} at a {word} of {loads_of(gains)}: the gain in {name} is {values}.")
    if open_loads:
        sentences.append(f"At a {word} of {loads_of(open_loads)} these rounds do not decide; measure longer.")
    if crossing := crossing_of(document, loop, quantity):
        sentences.append(f"The gain is 1 at a {word} of {units.load_within(*crossing)}.")
    return " ".join(sentences) or f"Measure longer: no {word} has two rounds with a gain in {name}."


def loads_of(loads: Iterable[float]) -> str:
    """Loads in a sentence: `1, 2 and 4`."""
    return listed([units.load(load) for load in loads])
