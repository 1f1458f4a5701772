"""Whether a claim holds: the conclusions of studies that do not ask whether to prune.

Ablations, gates, audits, and the studies that take work, time and theory apart have words of their own. They are all
made here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trio_profile import units
from trio_profile.judge.deploy import MATTERS, TOLERATED, Candidate, Words, decide
from trio_profile.judge.evidence import Evidence
from trio_profile.judge.sureness import ONE_PROCESS, Weakness, sureness
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.estimate import Interval
from trio_profile.text import are, listed

_MOST_NAMED = 3
"""A sentence names so many cases, and counts the others."""
_JOINT = "its intervals hold at 95 % for {} together; each interval of the table holds alone"


def of_effects(
    answers: Mapping[str, Interval], speeds: Mapping[str, Interval], no_answers: str, weaknesses: Sequence[Weakness]
) -> Conclusion:
    """Return whether variants differ from the unchanged method: `matters`, `matters by less than …`, `not decided`.

    answers: the interval of the change of the share of right answers, by the name of the variant.
    speeds: the interval of the variant's speed-up over the unchanged method's. All intervals hold together.
    no_answers: why nothing is said of answers; empty if something is said.
    """
    answers = {} if no_answers else answers
    if not answers and not speeds:
        nothing = no_answers or "no variant was compared with the unchanged method"
        return Conclusion(word="nothing to decide", sentence=f"{nothing}.")
    effects = {
        "worse in answers": [name for name, (_, high) in answers.items() if high < 0],
        "better in answers": [name for name, (low, _) in answers.items() if low > 0],
        "slower": [name for name, (_, high) in speeds.items() if high < 1],
        "faster": [name for name, (low, _) in speeds.items() if low > 1],
    }
    parts = [f"{len(names)} {are(names)} {effect}: {_named(names)}" for effect, names in effects.items() if names]
    compared = units.number_of(len({*answers, *speeds}), "variant")
    silent = [Weakness("medium", f"nothing is said of answers: {no_answers}")] if no_answers else []
    certainty = sureness([*weaknesses, *silent], [_JOINT.format(compared)])
    if parts:
        none = "" if effects["better in answers"] or effects["faster"] else " None is shown to be better."
        return Conclusion(
            word="matters", sentence=f"of {compared}, compared with the default, {'; '.join(parts)}.{none}", **certainty
        )
    points = min(max((abs(end) for interval in answers.values() for end in interval), default=1.0), 1.0)
    factor = max((max(high, 1 / low) for low, high in speeds.values()), default=1.0)
    most = units.at_most(100 * points)
    if points <= TOLERATED and factor <= MATTERS:
        sentence = f"none of {compared} differs from the default by more"
        sentence += f", nor in speed by more than a factor of {units.at_most(factor)}" if speeds else ""
        return Conclusion(word=f"matters by less than {most} points", sentence=f"{sentence}.", **certainty)
    wide = Weakness("low", "the measurements do not exclude a difference that matters")
    sentence = f"none of {compared} is shown to differ from the default"
    sentence += f", but one may by {most} points of right answers" if answers else ""
    return Conclusion(word="not decided", sentence=f"{sentence}.", **sureness([wide, *weaknesses, *silent], ()))


def of_gate(counts: Mapping[str, int], worst: Sequence[str]) -> Conclusion:
    """Return what a gate says: `regression`, `inconclusive`, `improvement` or `pass`.

    counts: how many quantities got which verdict. worst: the quantities with the worst verdict.
    """
    order = ("regression", "inconclusive", "improved", "pass")
    word = next((word for word in order if counts.get(word)), "inconclusive")
    tallies = {
        verdict: f"{units.exact(count)} {verdict}" for verdict in (*order, *counts) if (count := counts.get(verdict))
    }
    if worst:
        tallies[word] += f" ({_named(worst)})"
    total = units.number_of(sum(counts.values()), "verdict")
    sentence = f"of {total}, {listed([*tallies.values()])}." if tallies else "there is nothing to compare."
    return Conclusion(word=word.replace("improved", "improvement"), sentence=sentence)


def of_audit(follow: int, contradict: int, unsettled: int, figures: int, recomputed: int) -> Conclusion:
    """Return what an audit says of a paper's figures: `contradict`, `not settled` or `follow`.

    follow, contradict, unsettled: the findings of each sort.
    figures, recomputed: the printed figures, and how many of them were recomputed.
    """
    findings = follow + contradict + unsettled
    if not findings:
        text = f"none of {units.number_of(figures, 'printed figure')} can be computed from another one."
        return Conclusion(word="not settled", sentence=text)
    word = "contradict" if contradict else "not settled" if unsettled else "follow"
    share = f"{units.exact(recomputed)} of {units.number_of(figures, 'printed figure')}"
    sentence = (
        f"of {units.number_of(findings, 'finding')}, {units.exact(contradict)} contradict other printed figures, "
        f"{units.exact(follow)} follow from them, and {units.exact(unsettled)} are not settled. Recomputed: {share}."
    )
    certainty = sureness([], ["each contradiction is arithmetic with printed figures"]) if contradict else {}
    if word == "follow":
        weak = [Weakness("medium", f"only {share} were recomputed")] if recomputed < figures else []
        certainty = sureness(weak, ["every printed figure was recomputed"])
    return Conclusion(word=word, sentence=sentence, **certainty)


def of_predictions(gains: Mapping[str, Interval], next: str = "") -> Conclusion:
    """Return whether pruning is worth a trial on a GPU that is not here: `try`, `not decided` or `do not`.

    It is never `do`, because nothing was measured.

    gains: the range of the predicted speed-up of the prefill, by the name of a retention.
    next: the command that would measure it.
    """
    weak = Weakness("low", "it is predicted from tables of operators, and nothing was measured")
    candidates = [Candidate(name, gain, weaknesses=(weak,)) for name, gain in gains.items()]
    words = Words("retention", "the prefill is predicted to be {} times as fast", next=lambda *_: {"next": next})
    return decide(candidates, Evidence(answers="no prediction is about them"), words)[0]


def of_work(
    claimed: str, counted: str, times: float, terms: int, residual: str, missed: Sequence[str], declared: bool = False
) -> Conclusion:
    """Return whether a claim about work was taken apart without a rest: `reconciled` or `not reconciled`.

    claimed, counted: with their units. times: counted / claimed. terms: how many lie between them.
    residual: what they leave, with its unit; empty if nothing.
    missed: operators that may multiply matrices and were not counted.
    declared: whether the work of the selections was not counted, but taken from what the method declares.
    """
    between = f"{claimed} are claimed and {counted} are counted, {units.factor(times)} times as many"
    if missed:
        sentence = f"{between}, but the count misses {listed(missed)}, which may multiply matrices."
        return Conclusion(word="not reconciled", sentence=sentence)
    if residual:
        named = units.number_of(terms, "named term")
        return Conclusion(word="not reconciled", sentence=f"{between}; {named} leave {residual} unexplained.")
    explain = "explains" if terms == 1 else "explain"
    sentence = f"{between}; {units.number_of(terms, 'named term')} {explain} all of the difference."
    weak = [Weakness("medium", "nothing was selected: the work of the selections is what the method declares")]
    certainty = sureness(weak if declared else [], ["both are exact counts"])
    return Conclusion(word="reconciled", sentence=sentence, **certainty)


class TimedPrefill(NamedTuple):
    """A prefill whose time should fall as its work does.

    name: `trio at 11.1 %`.
    claimed: dense work over pruned work.
    measured: the interval of the speed-up.
    gap: why its parts are not those of the measured time, in a sentence; empty if they are.
    processes: how many measured it.
    """

    name: str
    claimed: float
    measured: Interval
    gap: str = ""
    processes: int = 1

    @property
    def is_slower(self) -> bool:
        """Whether the claim is excluded."""
        return self.measured[1] < self.claimed

    @property
    def is_reached(self) -> bool:
        """Whether the claim is reached, but for what does not matter."""
        return self.measured[0] * MATTERS >= self.claimed


def of_prefills(prefills: Sequence[TimedPrefill]) -> Conclusion:
    """Return whether time falls as work does: `holds`, `does not hold` or `not decided`.

    prefills: their intervals hold for all of them together.
    """
    if gap := next((prefill.gap for prefill in prefills if prefill.gap), ""):
        return Conclusion(word="not decided", sentence=f"{gap}.")
    slower = [prefill for prefill in prefills if prefill.is_slower]
    undecided = [prefill for prefill in prefills if not prefill.is_reached]
    first = (slower or undecided or prefills)[0]
    weak = [Weakness("medium", ONE_PROCESS)] if any(prefill.processes < 2 for prefill in prefills) else []
    low, high = first.measured
    claim = f"the formula claims {units.times(first.claimed)} for {first.name}, "
    if slower:
        sentence = f"{claim}and the prefill is at most {units.at_most(high)} times as fast."
        return Conclusion(word="does not hold", sentence=sentence, gain=first.measured, **sureness(weak, ()))
    measured = f"and the prefill is {units.at_least(low)} to {units.at_most(high)} times as fast."
    if undecided:
        weak = [Weakness("low", "the interval holds both the claim and less")]
    word = "not decided" if undecided else "holds"
    return Conclusion(word=word, sentence=f"{claim}{measured}", gain=first.measured, **sureness(weak, ()))


def of_bounds(stages: Mapping[str, Interval | None], weaknesses: Sequence[Weakness] = ()) -> Conclusion:
    """Return whether a larger term of the paper's bound goes with a larger divergence, at each stage.

    stages: the interval of the rank correlation among selections of equal size; None if it is not known. They hold for
        all stages together.
    weaknesses: what makes the intervals unsure.
    """
    known = {name: interval for name, interval in stages.items() if interval is not None}
    if not known:
        sentence = "no stage has selections of equal size that enough questions compare."
        return Conclusion(word="not decided", sentence=sentence)
    holding = [name for name, (low, _) in known.items() if low > 0]
    against = [name for name, (_, high) in known.items() if high <= 0]
    claim = "selections with a larger term of the paper's bound diverge more from dense"
    sure = [_JOINT.format(units.number_of(len(known), "stage"))]
    if against:
        return Conclusion(
            word="does not hold",
            sentence=f"it is not so that {claim} {_named(against, listed)}.",
            **sureness(weaknesses, sure),
        )
    if len(holding) == len(stages):
        return Conclusion(word="holds", sentence=f"{claim} {_named(holding, listed)}.", **sureness(weaknesses, sure))
    open_ = [name for name in stages if name not in holding]
    wide = sureness([Weakness("low", "the intervals there hold 0")], ())
    return Conclusion(word="not decided", sentence=f"whether {claim} is not shown {_named(open_, listed)}.", **wide)


def _named(names: Sequence[str], join: Callable[[Sequence[str]], str] = "; ".join) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return join([*names[:_MOST_NAMED], *([f"{units.exact(more)} more"] if more > 0 else [])])
