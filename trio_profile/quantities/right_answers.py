"""The questions that are answered right, and how many answers differ from those of the dense model."""

from collections.abc import Callable

from trio_profile.quantities import entries
from trio_profile.quantities.entries import Entry
from trio_profile.quantities.quantity import Column, Quantity
from trio_profile.records.estimate import Accuracy

ACCURACY = Quantity(
    name="accuracy",
    columns=(
        Column(
            "right",
            lambda cell, _: entries.short_share(cell.accuracy),
            of_dense=lambda dense: entries.short_share(dense.accuracy),
            needs_answers=True,
        ),
        Column("right within", lambda cell, _: entries.share(cell.accuracy), "right", needs_answers=True),
        Column("points lost", lambda cell, _: entries.points_lost(cell.accuracy_difference), needs_answers=True),
        Column("to dense", lambda cell, _: entries.points(cell.accuracy_difference), needs_answers=True),
    ),
)
ANSWER_AGREEMENT = Quantity(
    name="answer_agreement",
    columns=(Column("changed answers", lambda cell, _: entries.changed(cell.answer_agreement)),),
)


def of_kind(kind: str, share: Callable[[Accuracy | None], Entry] = entries.short_share) -> Column:
    """Return the column of the right answers to one kind of question. share: makes the entry of an accuracy."""
    return Column(
        kind,
        lambda cell, _: share(cell.accuracy_by_kind.get(kind)),
        of_dense=lambda dense: share(dense.accuracy_by_kind[kind]),
    )
