"""The kind `audit`: recompute the figures that a paper prints, and compare them with a measured sweep."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.inputs.claims.claims import Claims, Row, builtin, quantity, read
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.checks import (
    break_even,
    cache,
    dense_work,
    duplicates,
    plausible,
    pruned_work,
    ratios,
    schedules,
    sums,
    tower,
)
from trio_profile.kinds.audit.document import NEAR, VERDICTS, AuditDocument, Finding, Measured, merged
from trio_profile.progress import Watch, ignore
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.study.kinds import find

CHECKS = (ratios, duplicates, dense_work, pruned_work, cache, schedules, sums, break_even, plausible, tower)
"""The checks, in the order of the document. Each has a function `check` from the facts to its findings."""
_EXACT = {"flops": "counted_macs", "macs": "counted_macs", "kv": "kv_bytes"}
"""The fields of a cell with exact quantities, by what a paper prints."""


def prepare(study: Study) -> Study:
    """Return the study unchanged. Raises StudyError if it names no claims."""
    if study.claims is None:
        raise StudyError(f"name a claims file, or one of {', '.join(builtin())}; --new FILE writes an example")
    return study


def run(study: Study, directory: Path | None = None, watch: Watch = ignore) -> AuditDocument:  # noqa: ARG001
    """Audit a claims file.

    Raises ClaimsError if the file is not valid, or if the peak of the GPU is not known. Raises StoreError if the
    directory `measured` holds no sweep, and StudyError if the sweep has none of the settings.
    """
    assert study.claims is not None
    claims = read(study.claims)
    session = host.session(host.without_torch())
    document = audit(claims, study.gpu).model_copy(update={"sessions": (session,)})
    if study.measured is None:
        return document
    sweep = find("sweep").load("document")(Store(Path(study.measured)).read())
    document = with_measured(document, claims, sweep)
    if not any(finding.measured for finding in document.claims):
        raise StudyError(
            f"{study.measured} is a study of {sweep.study.model} and holds no setting for which {document.name} claims "
            "a ratio: give a sweep of the same model, method and retention, or leave --measured out"
        )
    return document


def audit(claims: Claims, device: str | None = None) -> AuditDocument:
    """Audit a paper's claims.

    device: on which the times were measured, for tables that name none.
    Raises ClaimsError if the peak of the device is unknown.
    """
    facts = Facts.of(claims, device)
    findings = tuple(merged(_at_source(facts, finding) for module in CHECKS for finding in module.check(facts)))
    counts = Counter(finding.verdict for finding in findings)
    return AuditDocument(
        name=claims.label,
        paper=claims.paper,
        source=claims.source,
        sources={name: table.where for name, table in claims.tables.items() if table.where},
        figures=sum(len(_figures(row)) for row in claims.rows()),
        recomputed=sum(_recomputed(line, findings) for line in facts.lines),
        claims=findings,
        alone=tuple(_alone(facts, findings)),
        tally={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
    )


def _at_source(facts: Facts, finding: Finding) -> Finding:
    """The finding, without a verdict of its own if it takes a figure that was not read at its source."""
    if all(line.table.checked or not finding.rests_on(line.place) for line in facts.lines):
        return finding
    return finding.model_copy(update={"verdict": "not_checked_at_the_source", "arithmetic": finding.verdict})


def _figures(row: Row) -> list[str]:
    """The figures that a row prints. A schedule counts by the average that it states."""
    averages = [row.tokens, row.retention] if row.schedule is not None else []
    crossing = [" and ".join(row.break_even)] if row.break_even else []
    return [*row.figures.values(), *row.scores, *crossing, *(text for text in averages if text is not None)]


def _recomputed(line: Line, findings: Sequence[Finding]) -> int:
    """How many of a row's figures were recomputed from others."""
    prints = [
        f" {finding.printed} "
        for finding in findings
        if finding.recomputed is not None and line.place in finding.where.split("; ")
    ]
    return sum(any(f" {text} " in print for print in prints) for text in _figures(line.row))


def _alone(facts: Facts, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Rows without a finding. A dense row counts as tested if another row of its table is."""
    named = {where for finding in findings for where in finding.where.split("; ")}
    tested = {line.label for line in facts.lines if line.place in named}
    for line in facts.lines:
        if line.place not in named and not (line.row.dense and line.label in tested):
            yield line.place


# Our own measurements


def with_measured(document: AuditDocument, claims: Claims, study: Any) -> AuditDocument:
    """The audit with a study's measurements of the same settings, for ratios and break-evens. No verdict changes.

    study: the document of a sweep.
    """
    lines = {line.place: line for line in Facts.of(claims).lines}
    findings = tuple(_with(finding, lines, study) for finding in document.claims)
    sessions = (*document.sessions, *study.sessions)
    update = {"sessions": sessions, "claims": findings, "environment": study.environment, "study": study.study}
    return document.model_copy(update=update)


def _with(finding: Finding, lines: Mapping[str, Line], study: Any) -> Finding:
    for place in finding.where.split("; ") if finding.check in ("ratio", "break-even") else ():
        line = lines.get(place)
        if line is None or line.row.model != study.study.model or line.row.dense:
            continue
        measured = _break_even(line, study) if finding.check == "break-even" else _ratio(finding, line, study)
        if measured is not None:
            return finding.model_copy(update={"measured": measured})
    return finding


def _ratio(finding: Finding, line: Line, study: Any) -> Measured | None:
    """The measured ratio of the same method and retention: of times, of counted work, or of cache bytes."""
    base = quantity(finding.quantity).base
    for cell in study.cells:
        realised = None if cell.retention is None else cell.retention.realised
        if cell.method != line.row.method or realised is None or line.retention is None:
            continue
        if abs(realised - float(line.retention.value)) > NEAR:
            continue
        timed = {"prefill": cell.prefill_speedup, "total": cell.total_speedup}.get(base)
        if timed is not None:
            value, ci95, samples = timed.value, timed.ci95, timed.samples
            return Measured(value=value, ci95=ci95, method=cell.method, retention=realised, samples=samples)
        whole, part = (getattr(side, _EXACT.get(base, ""), None) for side in (study.dense, cell))
        if whole and part:
            return Measured(value=whole / part, ci95=(whole / part,) * 2, method=cell.method, retention=realised)
    return None


def _break_even(line: Line, study: Any) -> Measured | None:
    method = line.row.method
    crossing = study.break_even_by_method.get(method, {}).get("total_ms")
    if crossing is None or crossing.retention is None or crossing.ci95 is None:
        return None
    return Measured(value=crossing.retention, ci95=crossing.ci95, method=method, retention=crossing.retention)
