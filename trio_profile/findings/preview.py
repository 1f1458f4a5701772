"""The report of a dry run: the cells that a study would measure, what they cost by formula, and how long it takes."""

from trio_profile import units
from trio_profile.analysis.preview import Preview, PreviewCell
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table
from trio_profile.text import listed

_COLUMNS = ("cell", "asked", "average", "after layers", "tokens kept", "f(n)")


def report(document: Preview) -> Report:
    """The report of a dry run."""
    blocks: list[Block] = [Sentences("", _summary(document)), *_tasks(document)]
    if document.cells:
        rows = [_row(cell) for cell in document.cells]
        blocks.append(Table("What each cell costs, in MACs", _COLUMNS, rows, keys=2))
    if document.refused:
        refused = [
            [Entry(refusal.cell.variant), Entry(units.percent(refusal.cell.retention)), Entry(refusal.reason)]
            for refusal in document.refused
        ]
        blocks.append(Table("What cannot run", ("cell", "asked", "reason"), refused, keys=2, prose=True))
    how = (
        "“asked” is the retention that was asked for. “average” is the retention that whole numbers of tokens reach, "
        "averaged over the decoder's layers. f(n) is the paper's formula for the prefill."
    )
    page = Page("preview", "Planned cells", how, blocks)
    return Report(f"Dry run of {document.study.verb}", document.study.model, [document.environment.device_name], [page])


def _summary(document: Preview) -> list[str]:
    """What there is to measure, and how long it takes."""
    shape = document.shape
    if shape is None:
        return [*_asked(document), f"What they cost is not known: {(document.seconds_reason or '').rstrip('.')}."]
    tokens = f"{units.exact(shape.visual_tokens)} visual and {units.exact(shape.text_tokens)} text tokens."
    what = f"{units.number_of(len(document.cells), 'cell')}, {tokens}" if document.cells else tokens
    if document.seconds is None:
        why = f": {document.seconds_reason}" if document.seconds_reason else ""
        return [what, *_asked(document), f"The expected time is not known{why}."]
    return [what, f"Expected time: about {units.duration(document.seconds)}."]


def _asked(document: Preview) -> list[str]:
    """What an evaluation asks, and of which cells."""
    if not document.tasks:
        return []
    study = document.study
    shares = listed([units.percent(share) for share in sorted(set(study.retentions), reverse=True)])
    dense = "The dense model answers each question too." if study.dense else "The dense model is not asked."
    return [f"Methods: {listed(study.methods)}, at {shares}.", dense, *filter(None, [document.setting])]


def _tasks(document: Preview) -> list[Table]:
    """The tasks of an evaluation: what they need, and how they differ from the paper."""
    if not document.tasks:
        return []
    suite = [task for task in document.tasks if task.benchmark]
    tables = [Table("Tasks", ("task",), [[Entry(task.task)] for task in document.tasks])]
    if suite:
        rows = [[Entry(task.benchmark), Entry(task.task), Entry(", ".join(task.needs))] for task in document.tasks]
        differ = [[Entry(task.benchmark), Entry(task.differs)] for task in suite if task.differs]
        tables = [
            Table("Tasks of lmms-eval, and what they need", ("benchmark", "task", "needs"), rows, keys=2, prose=True),
            Table("Where a task differs from the paper", ("benchmark", "difference"), differ, prose=True),
        ]
    return [table for table in tables if table.rows]


def _row(cell: PreviewCell) -> list[Entry]:
    return [
        Entry(cell.variant),
        Entry(units.percent(cell.retention)),
        Entry(units.percent(cell.layer_average, 2)),
        Entry(", ".join(map(str, cell.layers))),
        Entry(", ".join(map(str, cell.budgets))),
        Entry(units.count(cell.fastv_macs)),
    ]
