"""The parts that the reports of all grids share: heading, reminders, pages of tokens, doubts, environment and words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from trio_profile import units
from trio_profile.analysis.grid import GridDocument
from trio_profile.analysis.pairs import json_with_pairs
from trio_profile.findings import doubts, recommendation
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.definitions import environment_terms, numbers_page
from trio_profile.findings.table import grid, table
from trio_profile.findings.tokens import tokens_page
from trio_profile.quantities.quantity import over_dense
from trio_profile.records.schema import Cell, Record, Session, Study
from trio_profile.text import as_text, listed

_LIBRARIES = ("python", "torch", "transformers", "fvcore", "cuda", "driver")
_VERSIONS: dict[str, Callable[[Session], str | None]] = {
    "trio-profile": attrgetter("version"),
    **{name: attrgetter(f"environment.{name}") for name in _LIBRARIES},
}
"""The versions of a session, by their names."""


def report_of(document: Any, subject: str, pages: Sequence[Page]) -> Report:
    """The report of a grid: its pages under a heading that names the model, the device and the input.

    document: a SweepDocument, a Comparison or an Ablation. The pages of tokens, doubts and environment follow.
    """
    study, dense = document.study, document.dense
    facts = [document.environment.device_name, study.dtype, f"{study.attention} attention", f"batch {study.batch}"]
    facts += pixel_facts(study)
    if dense is not None:
        facts += [f"{dense.visual_tokens} visual + {dense.text_tokens} text tokens", f"{dense.num_layers} layers"]
    tokens = tokens_page(document)
    about = doubts.page(document.doubts, finished_cells(document.summaries), document.pairs)
    last = [*([tokens] if tokens else []), about, study_page(document)]
    return Report(
        subject=subject,
        model=study.model,
        facts=facts,
        pages=[*(page for page in pages if page.blocks or page.id == "answers"), *last, numbers_page()],
        data=json_with_pairs(document),
        confidence=recommendation.badges(document.recommendation) if hasattr(document, "recommendation") else (),
    )


def pixel_facts(study: Study) -> list[str]:
    """The facts of a heading on the pixels of a picture. Empty if the checkpoint's processor decides them."""
    return [] if study.pixels is None else [f"pictures of {units.span(*study.pixels)} pixels"]


def finished_cells(summaries: Iterable[Any]) -> list[Cell]:
    """The finished cells, as records name them."""
    return [summary.cell for summary in summaries if summary.status == "done"]


def notes(cells: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """The notes on how prefills ran, each sentence once. cells: the name of each, and its notes."""
    return list(dict.fromkeys(f"{name}: {note}." for name, texts in cells for note in texts))


def unfinished(summaries: Iterable[Any]) -> list[str]:
    """The cells that failed or were refused, each reason once."""
    names: dict[str, list[str]] = {}
    for summary in summaries:
        if summary.status != "done":
            reason = f"{summary.status}: {summary.reason or 'no reason was recorded'}"
            names.setdefault(reason, []).append(f"{summary.cell.variant} at {units.percent(summary.nominal_retention)}")
    return [f"{listed(cells)} {reason}." for reason, cells in names.items()]


def reminders(document: Any, *lines: str) -> list[Block]:
    """The last blocks of a verdict: what weakens the findings, and missing cells. Empty without any.

    document: as in `report_of`. lines: the first ones.
    """
    cells = document.summaries
    if missing := dict.fromkeys(cell.cell.variant for cell in cells if cell.status != "done"):
        lines += (f"Some cells failed or were refused, and have no numbers: {listed([*missing])}.",)
    lines += tuple(notes((cell.cell.variant, cell.notes) for cell in cells))
    if document.doubts:
        lines += (doubts.summary(document.doubts, finished_cells(cells)),)
    blocks = [
        Sentences("Keep in mind", lines, tone="doubt"),
        Sentences("Cells without numbers", unfinished(cells), detail=True),
    ]
    return [block for block in blocks if block.lines]


def with_banner(report: Report, model: str, sessions: Sequence[Session]) -> Report:
    """The report with what readers must know first of a built-in model: that it is a toy, or has random weights."""
    return replace(report, banner=report.banner or recommendation.banner(model, sessions))


def study_page(document: Any) -> Page:
    """The study as it was asked, and the environment and the sessions that measured it."""
    return Page(
        "study",
        "Study and environment",
        "Times hold for this machine and these versions. Exact counts hold wherever the same model runs.",
        [
            Terms("Asked", fields_of(document.study), detail=True),
            Terms("Measured on", environment_terms(document.environment), detail=True),
            sessions_table(document.sessions),
        ],
        folded="Show what was asked, and where it was measured",
    )


def fields_of(study: Record) -> list[tuple[str, str]]:
    """The fields of a study that say something, as text."""
    fields = {name: value for name, value in dict(study).items() if name != "verb"}
    return [(name.replace("_", " "), text) for name, value in fields.items() if (text := as_text(value))]


def sessions_table(sessions: Sequence[Session], caption: str = "Sessions") -> Table:
    """Each opening of the study: its start, command, host and commit, and the versions that differ."""
    differing = {name: of for name, of in _VERSIONS.items() if len({of(session) for session in sessions}) > 1}
    texts: dict[str, Callable[[Session], str | None]] = {
        "session": lambda session: units.exact(sessions.index(session) + 1),
        "started": lambda session: session.started and units.moment(session.started),
        "host": attrgetter("environment.hostname"),
        "commit": attrgetter("environment.commit"),
        **differing,
        "engine": attrgetter("engine"),
        "command": attrgetter("command"),
    }
    rows = [[Entry(text(session) or "–") for text in texts.values()] for session in sessions]
    return Table(caption, list(texts), rows, prose=True, detail=True)


# The table of all cells for a paper


def all_cells(document: Any) -> list[Page]:
    """The page with a table of all finished cells, whose caption says the conventions. Empty for another document."""
    if not isinstance(document, GridDocument):
        return []
    counts = [over_dense("MACs", "counted_macs", digits=1), over_dense("f(n)", "fastv_macs", digits=1)]
    counts.append(over_dense("KV", "kv_bytes", "bytes", digits=1))
    columns = ["prefill", "total", *counts, "right [95 %]", "points lost"]
    cells = table(grid(document, document.summaries), _caption(document), columns)
    return [Page("all-cells", "Table of all cells", "", [cells])]


def _caption(document: GridDocument) -> str:
    study, where, dense = document.study, document.environment, document.dense
    form = [study.dtype, f"{study.attention} attention", f"batch {study.batch}", *pixel_facts(study)]
    form += [f"{units.exact(dense.visual_tokens)} visual tokens"] if dense is not None else []
    parts = [
        f"{study.model} on {where.device_name} ({', '.join(form)}).",
        "Retention: the share of visual tokens kept, averaged over all decoder layers.",
        "Prefill and total: speed-up over the dense model, the median of paired ratios dense / pruned; total includes "
        f"{units.number_of(study.new_tokens, 'new token')}.",
        "MACs, f(n) and KV: over dense. MACs are counted multiply-adds (1 MAC = 2 FLOPs) of the whole prefill, the "
        "selection included; f(n) is the formula 4nd² + 2n²d + 2ndm on visual tokens with γ = "
        f"{units.plain(study.gamma)}; KV is the bytes of the cache after prefill.",
    ]
    if dense is not None and dense.accuracy is not None:
        right = units.percent_within(dense.accuracy.value, dense.accuracy.ci95)
        questions = units.number_of(dense.accuracy.samples, "question")
        parts.append(
            f"Right: share of {questions} answered right by the rule {study.match}, dense {right}; points lost are "
            "paired by question."
        )
    return " ".join([*parts, "Brackets: 95 % intervals.", *unfinished(document.summaries)])
