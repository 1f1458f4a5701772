"""What was asked, and where it was measured: the heading of a study's report, and the page near its end."""

from collections.abc import Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.pairs import json_with_pairs
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import recommendation
from trio_profile.findings.blocks import Entry, Page, Report, Table, Terms
from trio_profile.findings.definitions import ALLOCATORS, WAIT_POLICIES
from trio_profile.records.run import Run
from trio_profile.records.schema import Environment, Session, Study

_Item = tuple[str, str | None]
_VERSIONS = ("python", "torch", "transformers", "fvcore", "cuda", "driver")
"""The fields of an environment that are versions."""


def report_of(document: SweepDocument | Comparison | Ablation, subject: str, pages: Sequence[Page]) -> Report:
    """The report of a study: its pages under a heading that names the model, the device and the input."""
    study, dense = document.study, document.dense
    facts = [document.environment.device_name, study.dtype, f"{study.attention} attention", f"batch {study.batch}"]
    facts += pixel_facts(study)
    if dense is not None:
        facts += [f"{dense.visual_tokens} visual + {dense.text_tokens} text tokens", f"{dense.num_layers} layers"]
    return Report(
        subject=subject,
        model=study.model,
        facts=facts,
        pages=pages,
        data=json_with_pairs(document),
        confidence=None if isinstance(document, Ablation) else recommendation.badge(document.recommendation),
    )


def pixel_facts(study: Study) -> list[str]:
    """What a heading says of the pixels of a picture. Empty if the checkpoint's processor decides them."""
    return [] if study.pixels is None else [f"pictures of {units.span(*study.pixels)} pixels"]


def with_banner(report: Report, model: str, sessions: Sequence[Session]) -> Report:
    """The report with what readers must know first of a built-in model: that it is a toy, or has random weights."""
    return replace(report, banner=report.banner or recommendation.banner(model, sessions))


def study_page(document: SweepDocument | Comparison | Ablation) -> Page:
    """What was asked, and where it was measured."""
    return Page(
        "study",
        "Study and environment",
        "What was asked, and where it was measured. Times hold for this machine and these versions. Exact counts hold "
        "wherever the same model runs.",
        [
            Terms("Asked", _present(_study(document)), detail=True),
            Terms("Measured on", _present(_environment(document.environment)), detail=True),
            sessions_table(document.sessions),
            *([runs_table(document.runs, document.sessions)] if document.runs else []),
        ],
    )


def _study(document: SweepDocument | Comparison | Ablation) -> list[_Item]:
    asked = document.study
    layers = ", ".join(map(str, asked.layers)) if asked.layers else "the paper's, for this depth"
    precision = (
        f"±{units.percent(asked.precision)} of every speed-up, or {units.duration(asked.seconds)} for each block"
    )
    return [
        ("model", asked.model),
        ("methods", ", ".join(asked.methods)),
        ("retentions", ", ".join(units.percent(retention) for retention in sorted(set(asked.retentions)))),
        ("prune after layers", layers),
        ("options", ", ".join(f"{name} = {value}" for name, value in asked.options.items())),
        ("ablations", ", ".join(asked.ablations)),
        ("image", asked.image),
        ("prompt", asked.prompt),
        ("pixels of a picture", None if asked.pixels is None else units.span(*asked.pixels)),
        ("questions", ", ".join(asked.question_files)),
        ("tokens", _tokens(document)),
        ("batch", str(asked.batch)),
        ("device", f"{asked.device}, {asked.dtype}, {asked.attention} attention"),
        ("γ assumed", units.factor(asked.gamma)),
        ("interval asked", precision),
        ("processes", _processes(document)),
        ("seed", str(asked.seed)),
    ]


def _environment(where: Environment) -> list[_Item]:
    return [
        ("device", where.device_name),
        ("device memory", units.size(where.device_memory_bytes) if where.device_memory_bytes else None),
        ("CUDA, driver", ", ".join(part for part in (where.cuda, where.driver) if part)),
        ("processor", f"{where.cpu}, {where.cpu_threads} threads" if where.cpu_threads else where.cpu),
        ("waiting threads", WAIT_POLICIES.get(where.wait_policy, where.wait_policy)),
        ("freed memory", ALLOCATORS.get(where.allocator, where.allocator)),
        ("memory", units.size(where.memory_bytes) if where.memory_bytes else None),
        ("system", where.system),
        ("python", where.python),
        ("torch", where.torch),
        ("transformers", where.transformers),
        ("fvcore", where.fvcore),
        ("host", where.hostname),
        ("commit", where.commit),
    ]


def _processes(document: SweepDocument | Comparison | Ablation) -> str | None:
    """How many processes the user asked for; None for as many as fit into the time."""
    number = document.study.processes
    return None if number is None else f"{units.exact(number)} for each cell, one after another"


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


def _tokens(document: SweepDocument | Comparison | Ablation) -> str:
    new = f"{document.study.new_tokens} new"
    if document.dense is None:
        return new
    return f"{document.dense.visual_tokens} visual, {document.dense.text_tokens} of text, {new}"


def _present(items: Sequence[_Item]) -> list[tuple[str, str]]:
    return [(term, text) for term, text in items if text]
