"""The recommendation in words: it stands first on the page and in the terminal. The badge says how sure it is."""

from collections.abc import Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.recommendation import MATTERS, MOST_LOST, Pick, Recommendation
from trio_profile.findings import blocks
from trio_profile.findings.blocks import Sentences
from trio_profile.inputs.pocket import TRAINED
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Session
from trio_profile.text import listed

_MOST = f"{units.plain(100 * MOST_LOST)} points of right answers"


def block(found: Recommendation) -> Sentences:
    """The recommendation as sentences. The first one says what to do."""
    return Sentences("", list(_sentences(found)))


def badge(found: Recommendation) -> blocks.Confidence | None:
    """The confidence as a badge; None if nothing is measured."""
    if found.confidence is None:
        return None
    return blocks.Confidence(found.confidence.level, "; ".join(found.confidence.reasons))


def banner(model: str, sessions: Sequence[Session]) -> str:
    """What must be known of a built-in model: that it is a toy, or that its weights are random. Else empty."""
    if model in TRAINED:
        return (
            f"{model} is a toy model that answers questions about drawn shapes. This page shows how the instrument "
            "works. It does not say what your model gains."
        )
    # A model of the hub has a slash in its name, and a session records the files of a checkpoint.
    is_checkpoint = any(name.startswith("model/") for session in sessions for name in session.inputs)
    # A session of format version 1 has no id, and records no files.
    records_files = any(session.id for session in sessions)
    if not records_files or "/" in model or is_checkpoint:
        return ""
    return (
        f"The weights of {model} are random numbers. Times, work and bytes are those of a model of this size. Nothing "
        "here says what pruning does to answers."
    )


def _sentences(found: Recommendation) -> Iterator[str]:
    pick = found.pick
    if pick is None:
        yield "Nothing can be recommended yet: no cell of a method is finished. Controls do not count."
        return
    cell = f"{_named(pick)}: {_gain(pick)}"
    if found.status == "slower":
        yield f"Do not prune here: no cell may be more than {units.percent(MATTERS - 1, 0)} faster than dense."
        yield f"The fastest one is {cell}."
    elif found.status == "undecided":
        yield f"No speed-up is shown. The cell that may gain most is {cell}."
        yield "Measure longer: the same command with more `--seconds` goes on."
    elif found.status == "answers_lost":
        yield f"Do not prune here: every cell that is faster than dense loses more than {_MOST}."
        yield f"The one that loses least is {cell}."
    elif found.status == "cost_alone":
        yield f"By cost alone, {_named(pick)} is fastest: {_gain(pick)}."
        yield "No answers are known here, so this says nothing about quality. `--questions FILE` asks for them."
    else:
        yield f"Use {cell}."
    yield from _ties(found.ties)
    if found.status == "use":
        yield _floor(found, pick)


def _named(pick: Pick) -> str:
    return f"{pick.method} at {units.percent(pick.realised)}"


def _gain(pick: Pick) -> str:
    """The speed-up of the prefill and of the whole, and the right answers that are lost."""
    words = "× faster " if pick.prefill_speedup.value >= 1 else "× as fast "
    speed = units.times_within(pick.prefill_speedup.value, pick.prefill_speedup.ci95).replace("× ", words)
    parts = [f"prefill {speed}"]
    if pick.total_speedup is not None:
        parts.append(f"with decoding {units.times_within(pick.total_speedup.value, pick.total_speedup.ci95)}")
    if pick.accuracy_difference is not None:
        parts.append(_points(pick.accuracy_difference))
    return ", ".join(parts)


def _points(found: Difference) -> str:
    """The right answers that are lost, or gained."""
    if found.value > 0:
        return f"{units.points_within(found.value, found.ci95)} points of right answers gained"
    return f"{units.points_lost(found.value, found.ci95)} points of right answers lost"


def _ties(ties: Sequence[Pick]) -> Iterator[str]:
    if ties:
        yield f"These measurements cannot tell which is faster: {listed([_tie(pick) for pick in ties])}."


def _tie(pick: Pick) -> str:
    facts = [units.times(pick.prefill_speedup.value, pick.prefill_speedup.ci95)]
    if pick.accuracy_difference is not None:
        facts.append(f"{units.points_lost(pick.accuracy_difference.value)} points lost")
    return f"{_named(pick)} ({', '.join(facts)})"


def _floor(found: Recommendation, pick: Pick) -> str:
    floor, below = units.percent(found.floor or pick.realised), found.below
    if below is not None and below.accuracy_difference is not None:
        less = units.points_lost(below.accuracy_difference.value, below.accuracy_difference.ci95)
        where = units.percent(below.realised)
        return f"Do not go below {floor}: at {where} {pick.method} loses {less} points of right answers."
    return f"{pick.method} was not measured below {floor}."
