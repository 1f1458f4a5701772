"""What the reports of all grids share: the heading, and the folded pages of tokens, doubts, environment and words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from trio_profile import units
from trio_profile.analysis.pairs import json_with_pairs
from trio_profile.findings import doubts, recommendation
from trio_profile.findings.blocks import Entry, Page, Report, Table, Terms
from trio_profile.findings.definitions import environment_terms, numbers_page
from trio_profile.findings.tokens import tokens_page
from trio_profile.records.run import Run
from trio_profile.records.schema import Cell, Record, Session, Study
from trio_profile.text import as_text

_VERSIONS = ("python", "torch", "transformers", "fvcore", "cuda", "driver")
"""The fields of an environment that are versions."""


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
    about = doubts.page(document.doubts, finished_cells(document.summaries), document.pairs, study.methods)
    last = [*([tokens] if tokens else []), replace(about, folded="Show the doubts"), study_page(document)]
    return Report(
        subject=subject,
        model=study.model,
        facts=facts,
        pages=[*(page for page in pages if page.blocks or page.id == "answers"), *last, numbers_page()],
        data=json_with_pairs(document),
        confidence=recommendation.badges(document.recommendation) if hasattr(document, "recommendation") else (),
    )


def pixel_facts(study: Study) -> list[str]:
    """What a heading says of the pixels of a picture. Empty if the checkpoint's processor decides them."""
    return [] if study.pixels is None else [f"pictures of {units.span(*study.pixels)} pixels"]


def finished_cells(summaries: Iterable[Any]) -> list[Cell]:
    """The finished cells, as records name them."""
    return [summary.cell for summary in summaries if summary.status == "done"]


def notes(told: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """What readers must know of how prefills ran, each sentence once. told: what ran, with its notes."""
    return list(dict.fromkeys(f"{name}: {note}." for name, found in told for note in found))


def with_banner(report: Report, model: str, sessions: Sequence[Session]) -> Report:
    """The report with what readers must know first of a built-in model: that it is a toy, or has random weights."""
    return replace(report, banner=report.banner or recommendation.banner(model, sessions))


def study_page(document: Any) -> Page:
    """What was asked, and where it was measured."""
    return Page(
        "study",
        "Study and environment",
        "Times hold for this machine and these versions. Exact counts hold wherever the same model runs.",
        [
            Terms("Asked", fields_of(document.study), detail=True),
            Terms("Measured on", environment_terms(document.environment), detail=True),
            sessions_table(document.sessions),
            *([runs_table(document.runs, document.sessions)] if document.runs else []),
        ],
        folded="Show what was asked, and where it was measured",
    )


def fields_of(study: Record) -> list[tuple[str, str]]:
    """What was asked: every field that says something."""
    fields = {name: value for name, value in dict(study).items() if name != "verb"}
    return [(name.replace("_", " "), text) for name, value in fields.items() if (text := as_text(value))]


def sessions_table(sessions: Sequence[Session], caption: str = "Sessions") -> Table:
    """Each opening of the study: its start, command, host and commit, the versions that differ, and other work."""
    differing = [name for name in _VERSIONS if len({getattr(one.environment, name) for one in sessions}) > 1]
    if len({one.version for one in sessions}) > 1:
        differing.insert(0, "trio-profile")
    engines = any(one.engine for one in sessions)
    more = ["engine", "cores that it kept busy"] if engines else []
    columns = ["session", "started", "host", "commit", *differing, "CPU time of others", *more, "command"]
    rows = [
        [Entry(text or "–") for text in (units.exact(number), *_session(one, differing, engines))]
        for number, one in enumerate(sessions, start=1)
    ]
    return Table(caption, columns, rows, prose=True, detail=True)


def runs_table(runs: Sequence[Run], sessions: Sequence[Session]) -> Table:
    """Which worker measured which block, and where."""
    hosts = {session.id: session.environment.hostname for session in sessions}
    columns = ("block", "what", "worker", "host", "time", "attempt", "given up")
    rows = [
        [
            Entry(run.block),
            Entry("counts" if run.number == 0 else f"times, process {run.number}"),
            Entry(run.worker),
            Entry(hosts.get(run.session, "–")),
            Entry(units.duration(run.seconds)),
            Entry(units.exact(run.attempt)),
            Entry(run.failed or "–"),
        ]
        for run in runs
    ]
    return Table("Which worker measured which block", columns, rows, prose=True, detail=True)


def _session(session: Session, differing: Sequence[str], engines: bool) -> list[str | None]:
    where = session.environment
    cores = None if session.engine_cores is None else units.plain(round(session.engine_cores, 2))
    return [
        units.moment(session.started) if session.started else None,
        where.hostname,
        where.commit,
        *(session.version if name == "trio-profile" else getattr(where, name) for name in differing),
        None if session.busy is None else units.percent(session.busy, 0),
        *([session.engine, cores] if engines else []),
        session.command,
    ]
