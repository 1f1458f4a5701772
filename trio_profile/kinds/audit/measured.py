"""Put our own measurements beside printed ratios of the same model, method and retention."""

from collections.abc import Mapping
from typing import Any

from trio_profile.inputs.claims.claims import Claims
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.inputs.claims.quantities import quantity
from trio_profile.kinds.audit.document import AuditDocument
from trio_profile.kinds.audit.finding import Finding, Measured

NEAR = 0.006
"""Retentions that differ by less count as equal. A percentage without decimals may be off by half a percent."""
_EXACT = {"flops": "counted_macs", "macs": "counted_macs", "kv": "kv_bytes"}
"""The fields of a cell with exact quantities, by what a paper prints."""


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
