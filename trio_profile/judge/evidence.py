"""The evidence that a study gives. A claim without evidence is not made: it goes, and the reason is said."""

from collections.abc import Iterable
from dataclasses import dataclass

from trio_profile import units
from trio_profile.inputs.trained import TRAINED
from trio_profile.records.estimate import Accuracy
from trio_profile.records.facts import models
from trio_profile.records.schema import Session

TOLERATED = 0.02
"""A candidate keeps the answers if it loses at most this share of the questions: two points."""


@dataclass(frozen=True)
class Evidence:
    """The claims that a study cannot support, each with its reason in a sentence without its full stop.

    nothing: why it says nothing at all; empty if it says something.
    answers: why it says nothing of the answers; empty if it does.
    """

    nothing: str = ""
    answers: str = ""


def random_weights(model: str, sessions: Iterable[Session]) -> str:
    """Return that the weights of a built-in model are random. Empty for others."""
    # A session records the files of a checkpoint, which may have the name of a built-in model.
    is_checkpoint = any(name.startswith("model/") for session in sessions for name in session.inputs)
    if is_checkpoint or model in TRAINED or model not in models():
        return ""
    return f"the weights of {model} are random numbers, so its answers mean nothing"


def why_no_answers(dense: Accuracy | None, chance: float | None, random: str = "") -> str:
    """Return why the answers of a study say nothing of what pruning loses. Empty if they do.

    dense: the dense model's accuracy; None if no answers are known.
    chance: the share of right answers of who always gives the most frequent one; None if it is not known.
    random: as `random_weights` returns it.
    """
    if random or dense is None:
        return random or "no answers are known"
    questions = units.number_of(dense.samples, "question")
    if dense.value == 0:
        return f"the dense model answers none of {questions} right, so it can lose none"
    right = units.percent_within(dense.value, dense.ci95)
    if dense.ci95[0] <= TOLERATED:
        return f"the dense model answers {right} of {questions} right, so it has hardly an answer to lose"
    if chance is not None and dense.ci95[0] <= chance:
        return (
            f"the dense model answers {right} of {questions} right, and who always gives the most frequent answer "
            f"{units.percent(chance)}, so it may be guessing"
        )
    return ""
