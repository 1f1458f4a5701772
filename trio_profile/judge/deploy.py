"""Whether to prune: the conclusion from everything that could be deployed, each with what it gains and what it loses.

The words are `do`, `try`, `not decided`, `do not` and `nothing to decide`. Sweeps, comparisons, evaluations and
servers share them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trio_profile import units
from trio_profile.judge.evidence import TOLERATED, Evidence
from trio_profile.judge.sureness import Weakness, sureness
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.estimate import Interval
from trio_profile.text import are, capital, listed

MATTERS = 1.05
"""A smaller gain is not worth a method. If a study excludes a larger one, the word is `do not`."""
POSSIBLE_LOSS = 0.10
"""If a larger loss is not excluded, the sureness is low. If one that is not tolerated is not, it is medium."""
UNTOLD = 10
"""An interval of a speed-up whose ends lie this many times apart says nothing: it is not printed."""


@dataclass(frozen=True)
class Candidate:
    """Something that could be deployed: a method at a retention, or pruning under a load.

    The intervals hold for all candidates of a study together, so that the best of many is no luck.

    name: in a sentence: `trio at 33.0 %`.
    gain: the interval of its speed-up.
    whole: the interval of the speed-up of prefill and decoding; None if they are not measured.
    loss: the interval of the share of right answers that it loses; None if no answers are known.
    lost: that share itself.
    weaknesses: what makes its numbers unsure.
    """

    name: str
    gain: Interval
    whole: Interval | None = None
    loss: Interval | None = None
    lost: float = 0.0
    weaknesses: tuple[Weakness, ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether a gain that matters is excluded."""
        return self.gain[1] <= MATTERS

    @property
    def is_slow_with_decoding(self) -> bool:
        """Whether prefill and decoding together are shown to be slower."""
        return self.whole is not None and self.whole[1] < 1

    @property
    def loses(self) -> bool:
        """Whether it is shown to lose more right answers than is tolerated."""
        return self.loss is not None and self.loss[0] > TOLERATED

    @property
    def may_pay(self) -> bool:
        """Whether nothing that would speak against it is shown."""
        return not (self.is_slow or self.is_slow_with_decoding or self.loses)

    @property
    def pays(self) -> bool:
        """Whether it is shown to be faster, also with decoding, and to keep the answers."""
        faster = self.gain[0] > 1 and (self.whole is None or self.whole[0] > 1)
        return faster and self.loss is not None and self.loss[1] <= TOLERATED

    @property
    def is_doubted(self) -> bool:
        """Whether its numbers may be wrong by more than their intervals."""
        return any(weakness.level == "low" for weakness in self.weaknesses)


@dataclass(frozen=True)
class Words:
    """How a kind names its candidates and their gain.

    noun: of a candidate: `cell`, `load`.
    named: with a place for the names of candidates: `a concurrency of {}`.
    gain: what a gain is, with a place for the factor: `the prefill is {} times as fast`.
    together: with a place for names, if the candidates are not alternatives: pruning pays at one load and at another.
    loss: what is lost.
    next: returns the fields `next` and `next_seconds` of the conclusion, from the word and the candidate.
    """

    noun: str
    gain: str
    named: str = "{}"
    next: Callable[[str, Candidate], dict[str, Any]] = lambda *_: {}
    together: str = ""
    loss: str = "points of right answers"


def decide(candidates: Sequence[Candidate], evidence: Evidence, words: Words) -> tuple[Conclusion, Candidate | None]:
    """Return the conclusion, and the candidate that it is about.

    candidates: those with times, without controls.
    """
    if evidence.nothing or not candidates:
        nothing = evidence.nothing or f"no {words.noun} of a method is measured (controls do not count)"
        return Conclusion(word="nothing to decide", sentence=f"{nothing}."), None
    if evidence.answers:
        candidates = [replace(candidate, loss=None, lost=0.0) for candidate in candidates]
    possible = [candidate for candidate in candidates if candidate.may_pay]
    faster = [candidate for candidate in possible if candidate.gain[0] > 1]
    hopeful = [candidate for candidate in faster if candidate.lost <= TOLERATED]
    sure = [candidate for candidate in hopeful if candidate.pays and not candidate.is_doubted]
    among = f", for {units.number_of(len(candidates), words.noun)} together" if len(candidates) > 1 else ""
    if not possible:
        word, best, text = "do not", max(candidates, key=_most), _against(candidates, words)
        certainty = sureness(_weaknesses(candidates), [f"these bounds hold{among}"])
    elif not faster:
        word, best = "not decided", max(possible, key=_most)
        text = f"{_none_faster(candidates, words)}. The largest gain is possible with {_named(best, words)}: "
        low, high = best.gain
        if high > UNTOLD * low:
            text += "it was measured too seldom to tell how large"
        else:
            text += words.gain.format(f"{units.at_least(low)} to {units.at_most(high)}")
        wide = Weakness("low", "the intervals hold both a gain and a loss")
        certainty = sureness([wide, *best.weaknesses], ())
    elif not hopeful:
        word, best = "not decided", min(faster, key=lambda candidate: candidate.lost)
        gain = words.gain.format(f"at least {units.at_least(best.gain[0])}")
        text = f"with {_named(best, words)} {gain}, {_lost(best, words)}"
        certainty = sureness([Weakness("low", "the questions do not decide whether it keeps the answers")], ())
    else:
        answered = [candidate for candidate in hopeful if candidate.loss is not None]
        word, chosen = "do" if sure else "try", sure or answered or hopeful
        best = _together(chosen, words) if words.together else _best(chosen)
        text = f"{best.name}. {capital(listed([*_bounds(best, words)]))}"
        certainty = sureness([*best.weaknesses, *_weak_answers(best, evidence, among)], [_strength(best) + among])
        further = _slower(candidates, words) if words.together else _alike(best, hopeful)
        text += "".join(f". {capital(sentence)}" for sentence in further)
    loss = None if best.loss is None else max(best.loss[1], 0.0)
    conclusion = Conclusion(word=word, sentence=f"{text}.", gain=best.gain, loss=loss, **certainty)
    return conclusion.model_copy(update=words.next(word, best)), best


def _most(candidate: Candidate) -> float:
    return candidate.gain[1]


def _best(faster: Sequence[Candidate]) -> Candidate:
    """Return the fastest candidate; of those whose gains cannot be told from its own, the one that loses least."""
    first = max(faster, key=lambda candidate: candidate.gain[0])
    alike = [candidate for candidate in faster if candidate.gain[1] >= first.gain[0]]
    return max(alike, key=lambda candidate: (-max(candidate.lost, 0.0), candidate.gain[0]))


def _bounds(best: Candidate, words: Words) -> Iterator[str]:
    """Yield what is gained at least, and what is lost at most."""
    yield words.gain.format(f"at least {units.at_least(best.gain[0])}")
    if best.whole is not None:
        low, high = best.whole
        if low > 1:
            bound = f"are at least {units.at_least(low)} times as fast"
        elif high > UNTOLD * low:
            bound = "were timed too seldom to tell"
        else:
            bound = f"are {units.at_least(low)} to {units.at_most(high)} times as fast"
        yield f"prefill and decoding together {bound}"
    if best.loss is not None:
        most = f"{units.at_most(100 * max(best.loss[1], 0.0))} {words.loss}"
        yield f"at most {most} are lost" if best.loss[1] <= TOLERATED else f"up to {most} may be lost"


def _none_faster(candidates: Sequence[Candidate], words: Words) -> str:
    """That no candidate is shown to be faster; first why those that are faster do not count."""
    if any(candidate.gain[0] > 1 for candidate in candidates):
        return f"{_against(candidates, words)}, and none of the others is shown to be faster"
    return f"no {words.noun} is shown to be faster"


def _against(candidates: Sequence[Candidate], words: Words) -> str:
    """The reasons against candidates, counted. Each candidate counts once at most."""
    slow = [candidate for candidate in candidates if candidate.is_slow]
    others = [candidate for candidate in candidates if not candidate.is_slow]
    slow_with_decoding = [candidate for candidate in others if candidate.is_slow_with_decoding]
    losing = [candidate for candidate in others if candidate.loses and not candidate.is_slow_with_decoding]
    reasons = {
        f"at most {units.percent(MATTERS - 1, 0)} faster": slow,
        "slower with decoding": slow_with_decoding,
        f"faster at a loss of more than {units.plain(100 * TOLERATED)} {words.loss}": losing,
    }
    counted = [f"{units.exact(len(group))} {are(group)} {text}" for text, group in reasons.items() if group]
    return f"of {units.number_of(len(candidates), words.noun)} {listed(counted)}"


def _lost(best: Candidate, words: Words) -> str:
    """The loss of a candidate, with its interval if it has one."""
    if best.loss is None:
        return f"and it loses {units.points_lost(-best.lost)} {words.loss}, whose interval is not known"
    return f"and it loses {units.points_lost(-best.lost, (-best.loss[1], -best.loss[0]))} {words.loss}"


def _weak_answers(best: Candidate, evidence: Evidence, among: str) -> Iterator[Weakness]:
    """Yield what makes it unsure that a candidate keeps the answers. among: for how many the intervals hold."""
    if best.loss is None:
        yield Weakness("medium", f"nothing is said of answers: {evidence.answers or 'its own are not known'}")
    elif best.loss[1] > TOLERATED:
        most = units.at_most(100 * best.loss[1])
        level = "low" if best.loss[1] > POSSIBLE_LOSS else "medium"
        yield Weakness(level, f"the questions do not exclude a loss of {most} points{among}")
    if best.whole is not None and best.whole[0] <= 1:
        yield Weakness("medium", "it is not shown that prefill and decoding together are faster")


def _together(chosen: Sequence[Candidate], words: Words) -> Candidate:
    """Candidates that hold at once, as one: the least of their gains, and the most."""
    return Candidate(
        name=words.together.format(words.named.format(listed([candidate.name for candidate in chosen]))),
        gain=(min(candidate.gain[0] for candidate in chosen), max(candidate.gain[1] for candidate in chosen)),
        loss=chosen[0].loss,
        lost=chosen[0].lost,
        weaknesses=tuple(_weaknesses(chosen)),
    )


def _slower(candidates: Sequence[Candidate], words: Words) -> Iterator[str]:
    """Yield where pruning is shown to be slower."""
    if slower := [candidate.name for candidate in candidates if candidate.gain[1] < 1]:
        yield f"it is shown to be slower at {words.named.format(listed(slower))}"


def _alike(best: Candidate, others: Sequence[Candidate]) -> Iterator[str]:
    """Yield which other candidates may be as fast, and which are faster."""
    faster = [other.name for other in others if other.gain[0] > best.gain[1]]
    alike = [other.name for other in others if other is not best and other.gain[1] > best.gain[0]]
    alike = [name for name in alike if name not in faster]
    if alike:
        named = alike[0] if len(alike) == 1 else f"one of {len(alike)} others"
        yield f"it is not decided whether {named} is faster"
    if faster:
        yield f"faster, but less sure in answers or times: {listed(faster)}"


def _strength(best: Candidate) -> str:
    """The reason to be sure."""
    not_slower = "the intervals exclude that it is slower"
    if best.loss is None:
        return not_slower
    return f"{not_slower}, and a loss of more than {units.at_most(100 * max(best.loss[1], 0.0))} points"


def _weaknesses(candidates: Sequence[Candidate]) -> list[Weakness]:
    return list(dict.fromkeys(weakness for candidate in candidates for weakness in candidate.weaknesses))


def _named(best: Candidate, words: Words) -> str:
    return words.named.format(best.name)
