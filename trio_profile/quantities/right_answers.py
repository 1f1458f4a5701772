"""The questions that are answered right, and how many answers differ from those of the dense model."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity

ACCURACY = Quantity(
    name="accuracy",
    columns=(
        Column(
            "right",
            lambda cell, _: entries.short_share(cell.accuracy),
            of_dense=lambda dense: entries.short_share(dense.accuracy),
            needs_answers=True,
        ),
        Column("right [95 %]", lambda cell, _: entries.share(cell.accuracy), needs_answers=True),
        Column("points lost", lambda cell, _: entries.points_lost(cell.accuracy_difference), needs_answers=True),
    ),
)
ANSWER_AGREEMENT = Quantity(
    name="answer_agreement",
    columns=(Column("changed answers", lambda cell, _: entries.changed(cell.answer_agreement)),),
)


def of_kind(kind: str) -> Column:
    """Return the column of the right answers to one kind of question."""
    return Column(
        kind,
        lambda cell, _: entries.share(cell.accuracy_by_kind.get(kind)),
        of_dense=lambda dense: entries.share(dense.accuracy_by_kind[kind]),
    )
