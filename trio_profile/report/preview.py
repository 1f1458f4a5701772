"""The report of a dry run: the cells that a study would measure, what they cost by formula, and how long it takes."""

from collections.abc import Callable

from trio_profile import units
from trio_profile.judge.planned import PlannedTask, Preview, PreviewCell, Refusal
from trio_profile.report.blocks import Entry, Page, Report, Sentences, tabulate
from trio_profile.text import capital, listed


def report(document: Preview) -> Report:
    """The report of a dry run."""
    tasks: dict[str, Callable[[PlannedTask], Entry]] = {
        "task": lambda task: Entry(task.task),
        "benchmark": lambda task: Entry(task.benchmark),
        "needs": lambda task: Entry(", ".join(task.needs)),
        "difference from the paper": lambda task: Entry(task.differs),
    }
    cells: dict[str, Callable[[PreviewCell], Entry]] = {
        "cell": lambda cell: Entry(cell.variant),
        "asked": lambda cell: Entry(units.percent(cell.retention)),
        "average": lambda cell: Entry(units.percent(cell.layer_average, 2)),
        "after layers": lambda cell: Entry(", ".join(map(str, cell.layers))),
        "tokens kept": lambda cell: Entry(", ".join(map(str, cell.budgets))),
        "f(n)": lambda cell: Entry(units.count(cell.fastv_macs)),
    }
    refused: dict[str, Callable[[Refusal], Entry]] = {
        "cell": lambda refusal: Entry(refusal.cell.variant),
        "asked": lambda refusal: Entry(units.percent(refusal.cell.retention)),
        "reason": lambda refusal: Entry(refusal.reason),
    }
    tables = [
        tabulate("Tasks of lmms-eval", tasks, document.tasks, prose=True),
        tabulate("What each cell costs, in MACs", cells, document.cells, keys=2),
        tabulate("What cannot run", refused, document.refused, keys=2, prose=True),
    ]
    blocks = [Sentences("", _summary(document)), *(table for table in tables if table.rows)]
    how = (
        "“asked” is the retention that was asked for. “average” is the retention that whole numbers of tokens reach, "
        "averaged over the decoder's layers. f(n) is the paper's formula for the prefill."
    )
    page = Page("preview", "Planned cells", how, blocks)
    return Report(f"Dry run of {document.study.verb}", document.study.model, [document.environment.device_name], [page])


def _summary(document: Preview) -> list[str]:
    """How much there is to measure, and how long it takes."""
    questions, shape = _evaluation(document), document.shape
    if shape is None:
        return [*questions, f"What they cost is not known: {(document.seconds_reason or '').rstrip('.')}."]
    tokens = f"{units.exact(shape.visual_tokens)} visual and {units.exact(shape.text_tokens)} text tokens."
    cells = f"{units.number_of(len(document.cells), 'cell')}, {tokens}" if document.cells else tokens
    if document.seconds is None:
        why = f": {document.seconds_reason}" if document.seconds_reason else ""
        return [cells, *questions, f"The expected time is not known{why}."]
    reach = [f"{capital(document.reach)}."] if document.reach else []
    return [cells, *reach, f"Expected time: about {units.duration(document.seconds)}."]


def _evaluation(document: Preview) -> list[str]:
    """The methods of an evaluation, and whether the dense model answers too."""
    if not document.tasks:
        return []
    study = document.study
    shares = listed([units.percent(share) for share in sorted(set(study.retentions), reverse=True)])
    dense = "The dense model answers each question too." if study.dense else "The dense model is not asked."
    return [f"Methods: {listed(study.methods)}, at {shares}.", dense, *filter(None, [document.setting])]
