"""The recommendation in words: it stands first on the page and in the terminal. The badges say how sure it is."""

from collections.abc import Iterator, Sequence

from trio_profile import units
from trio_profile.inputs.pocket import TRAINED
from trio_profile.judge.recommendation import MATTERS, MOST_LOST, Pick, Recommendation
from trio_profile.records.estimate import Ratio
from trio_profile.records.facts import models
from trio_profile.records.schema import Session
from trio_profile.report import blocks
from trio_profile.text import listed

_MOST = f"{units.plain(100 * MOST_LOST)} points of right answers"


def sentence(advice: Recommendation) -> str:
    """The recommendation in one sentence."""
    pick = advice.pick
    if pick is None:
        return "Nothing can be recommended yet: no cell of a method is finished. Controls do not count."
    cell = f"{_named(pick)}, {_gain(pick)}"
    match advice.status:
        case "slower":
            return (
                f"Do not prune here: no cell may be more than {units.percent(MATTERS - 1, 0)} faster. Fastest: {cell}."
            )
        case "undecided":
            return f"Measure longer before you decide: no speed-up is shown. What may gain most: {cell}."
        case "answers_lost":
            return f"Do not prune here: all that is faster loses more than {_MOST}. Least lost: {cell}."
        case "cost_alone":
            return f"By cost alone, keep {_kept(pick)}: {_gain(pick)}. Answers are not known."
        case _:
            return f"Keep {_kept(pick)}: {_gain(pick)}."


def further(advice: Recommendation) -> Iterator[str]:
    """The other conclusions: methods that are as good, and below which retention not to go."""
    if advice.ties:
        yield f"These measurements cannot tell which is faster: {listed([_tie(pick) for pick in advice.ties])}."
    pick, below = advice.pick, advice.below
    if advice.status != "use" or pick is None:
        return
    floor = units.percent(advice.floor or pick.realised)
    if below is not None and below.accuracy_difference is not None:
        less = units.points_lost(below.accuracy_difference.value, below.accuracy_difference.ci95)
        yield f"Do not go below {floor}: at {units.percent(below.realised)} {pick.method} loses {less} points."
    else:
        yield f"{pick.method} was not measured below {floor}."


def badges(advice: Recommendation) -> list[blocks.Confidence]:
    """How sure the speed and the answers are, and why; of the speed alone where nothing is said of answers."""
    parts = {"speed": advice.confidence_in_speed, "answers": advice.confidence_in_answers}
    return [blocks.Confidence(part.level, "; ".join(part.reasons), subject) for subject, part in parts.items() if part]


def banner(model: str, sessions: Sequence[Session]) -> str:
    """The warning about a built-in model: that it is a toy, or that its weights are random. Else empty."""
    if model in TRAINED:
        return f"{model} is a toy model that answers questions about drawn shapes: this says nothing of your model."
    # A session records the files of a checkpoint, which may have the name of a built-in model.
    is_checkpoint = any(name.startswith("model/") for session in sessions for name in session.inputs)
    if is_checkpoint or model not in models():
        return ""
    return f"The weights of {model} are random numbers: times and work are those of its size, answers mean nothing."


def _named(pick: Pick) -> str:
    return f"{pick.method}{licence(pick.remark)} at {units.percent(pick.realised)}"


def _kept(pick: Pick) -> str:
    return f"{units.percent(pick.realised)} of the visual tokens with {pick.method}{licence(pick.remark)}"


def licence(remark: str) -> str:
    """The warning about a method whose code restricts its use; else empty."""
    return f" ({remark})" if "non-commercial" in remark else ""


def _gain(pick: Pick) -> str:
    """The speed-up of the prefill and of the whole, and the right answers that are lost."""
    parts = [f"prefill {_times(pick.prefill_speedup)}"]
    if pick.total_speedup is not None and _times(pick.total_speedup) != _times(pick.prefill_speedup):
        parts.append(f"with decoding {_times(pick.total_speedup)}")
    lost = pick.accuracy_difference
    if lost is not None and lost.value > 0:
        parts.append(f"{units.points_within(lost.value, lost.ci95)} points of right answers gained")
    elif lost is not None:
        parts.append(f"{units.points_lost(lost.value, lost.ci95)} points of right answers lost")
    return ", ".join(parts)


def _times(speedup: Ratio) -> str:
    return units.times_within(speedup.value, speedup.ci95).replace("× ", "× as fast ")


def _tie(pick: Pick) -> str:
    facts = [units.times(pick.prefill_speedup.value, pick.prefill_speedup.ci95)]
    if pick.accuracy_difference is not None:
        facts.append(f"{units.points_lost(pick.accuracy_difference.value)} points lost")
    return f"{_named(pick)} ({', '.join(facts)})"
