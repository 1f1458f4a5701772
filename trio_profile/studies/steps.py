"""The steps that one session of a study reports while it measures cells."""

from collections.abc import Mapping, Sequence

from trio_profile import units
from trio_profile.progress import Step, Watch
from trio_profile.studies.plan import PlannedCell

Parts = tuple[float, float, float]


class Steps:
    """The steps of one session, with the expected seconds of its cells.

    watch: called with each step.
    parts: the expected seconds of each cell: its counts, its questions, its warm-up and pairs.
    later: the expected seconds of the sessions that follow this one.
    """

    def __init__(
        self, watch: Watch, cells: Sequence[PlannedCell], parts: Mapping[str, Parts], later: float = 0.0
    ) -> None:
        self.watch, self.parts = watch, parts
        self.number = {planned.cell.id: number for number, planned in enumerate(cells, start=1)}
        self.done = dict.fromkeys(self.parts, 0.0)
        self.total = later + sum(sum(parts) for parts in self.parts.values())

    def begin(self, planned: PlannedCell, what: str) -> None:
        """Show that a cell begins. what: the work that begins."""
        self._show(f"{self._name(planned)}: {what}")

    def finish_counts(self, planned: PlannedCell) -> None:
        """Note that the counts of a cell are finished."""
        self.done[planned.cell.id] = self.parts[planned.cell.id][0]

    def show_answers(self, planned: PlannedCell, done: int, total: int) -> None:
        """Show how many questions of a cell are answered."""
        counts, questions, _ = self.parts[planned.cell.id]
        self.done[planned.cell.id] = counts + questions * done / total
        self._show(f"{self._name(planned)}: {done} of {total} questions")

    def show_pairs(self, block: Sequence[PlannedCell], pairs: dict[int, tuple[int, float]]) -> None:
        """Show how many pairs of a block are measured.

        pairs: by position in the block, the number of pairs and their measured seconds.
        """
        for index, (_, seconds) in pairs.items():
            counts, questions, sampling = self.parts[block[index].cell.id]
            self.done[block[index].cell.id] = counts + questions + sampling * min(seconds / sampling, 1.0)
        most = max(count for count, _ in pairs.values())
        names = ", ".join(block[index].cell.variant for index in list(pairs)[:3])
        more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        self._show(f"{names}{more} at {units.plain(block[0].cell.retention)}: pair {most}")

    def finish(self, planned: PlannedCell) -> None:
        """Note that a cell is finished, or that it failed."""
        self.done[planned.cell.id] = sum(self.parts[planned.cell.id])

    def end(self) -> None:
        """Show that this session has measured all its cells."""
        self._show("all cells are measured")

    def _name(self, planned: PlannedCell) -> str:
        number, cell = self.number[planned.cell.id], planned.cell
        return f"cell {number} of {len(self.parts)}, {cell.variant} at {units.plain(cell.retention)}"

    def _show(self, text: str) -> None:
        self.watch(Step(text, sum(self.done.values()), self.total))
