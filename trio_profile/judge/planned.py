"""The document of a dry run: the cells of a study, their work by formula, and the expected time."""

from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import Cell, Record, Shape


class Refusal(Record):
    """A cell that could not run, with the reason in one line."""

    cell: Cell
    reason: str


class PreviewCell(Record):
    """One cell that would run.

    variant: the method with the options that differ from the study's.
    retention: the share of the visual tokens that the user gave.
    layer_average: the schedule's share, averaged over the decoder's layers.
    layers, budgets: the stages, and the visual tokens that each keeps.
    fastv_macs: F_inf + F_ov by the paper's formulas.
    """

    variant: str
    retention: float
    layer_average: float
    layers: tuple[int, ...]
    budgets: tuple[int, ...]
    fastv_macs: int


class PlannedTask(Record):
    """One task that an evaluation would ask.

    benchmark: its column in the suite's table; empty without a suite.
    needs: what must be downloaded or set before it can run, as the suite says.
    differs: how it differs from the paper's protocol, as the suite says.
    """

    task: str
    benchmark: str = ""
    needs: tuple[str, ...] = ()
    differs: str = ""


class Preview(StudyDocument):
    """The output of `--dry-run`.

    shape: sizes of the model and of its input; None if the model cannot be loaded.
    tasks: kind `eval` only. The tasks.
    setting: what else the suite's paper sets; empty without a suite.
    cells: the cells that can run.
    refused: the cells that cannot run.
    reach: which loss of answers the questions can exclude; empty for a kind that asks none.
    seconds: expected time of the whole study on this machine, estimated from a few runs of its model. None if the time
        cannot be estimated.
    seconds_reason: why the time cannot be estimated.
    """

    shape: Shape | None
    tasks: tuple[PlannedTask, ...] = ()
    setting: str = ""
    cells: tuple[PreviewCell, ...]
    refused: tuple[Refusal, ...] = ()
    reach: str = ""
    seconds: float | None = None
    seconds_reason: str | None = None
