"""The report of `check`: every doubt about the cells of a study, and what to do about it."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from trio_profile import units
from trio_profile.analysis.doubt import Doubt, cell_name
from trio_profile.findings.blocks import Page, Report, Sentences
from trio_profile.records.schema import Measurement, Study


def report(study: Study, measurements: Sequence[Measurement], doubts: Sequence[Doubt]) -> Report:
    """The report of the doubts about a study.

    doubts: in the order of the cells, those about the whole study first.
    """
    blocks = [Sentences("", [tally(measurements, doubts)])]
    for cell, group in groupby(doubts, key=lambda doubt: doubt.cell):
        blocks.append(Sentences(cell_name(cell), [_sentence(doubt) for doubt in group], tone="doubt"))
    page = Page(
        "doubts",
        "Cells and their doubts",
        "Each doubt has a number, the threshold that it passed, and the next step. A cell without a doubt is sound.",
        blocks,
    )
    return Report(subject="Doubts", joint="about", model=study.model, facts=[", ".join(study.methods)], pages=[page])


def tally(measurements: Sequence[Measurement], doubts: Sequence[Doubt]) -> str:
    """How many cells were measured, were refused, failed, are doubted and are sound."""
    done = {measurement.cell.id for measurement in measurements if measurement.status == "done"}
    doubted = done & {doubt.cell.id for doubt in doubts if doubt.cell is not None}
    parts = [f"{units.number_of(len(done), 'cell')} measured"]
    counts = Counter(measurement.status for measurement in measurements)
    parts += [f"{units.exact(counts[status])} {status}" for status in ("refused", "failed") if counts[status]]
    return f"{', '.join(parts)}: {len(doubted)} doubted, {len(done) - len(doubted)} sound."


def _sentence(doubt: Doubt) -> str:
    return f"{doubt.kind}: {doubt.sentence}. Next step: {doubt.next_step}."
