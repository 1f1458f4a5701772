"""Put our own measurements beside printed ratios of the same model, method and retention."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trio_profile.judge.audit.claims import Claims, Row
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Measured, place
from trio_profile.judge.audit.quantities import quantity

if TYPE_CHECKING:  # statistics take as long to import as a whole audit takes
    from trio_profile.analysis.sweep import CellSummary, SweepDocument

_NEAR = 0.006
"""Retentions that differ by less count as equal. A percentage without decimals may be off by half a percent."""


def beside(findings: tuple[Finding, ...], claims: Claims, study: "SweepDocument") -> tuple[Finding, ...]:
    """The findings, with the study's measurement of the same setting for ratios and break-evens."""
    facts = Facts.of(claims)
    rows = {place(table, row): row for table, row in claims.rows()}
    return tuple(_with(finding, facts, rows, study) for finding in findings)


def _with(finding: Finding, facts: Facts, rows: Mapping[str, Row], study: "SweepDocument") -> Finding:
    if finding.check not in ("ratio", "break-even"):
        return finding
    for where in finding.where.split("; "):
        row = rows.get(where)
        if row is None or row.model != study.study.model or row.method is None:
            continue
        found = _break_even(row, study) if finding.check == "break-even" else _ratio(finding, facts, row, study)
        if found is not None:
            return finding.model_copy(update={"measured": found})
    return finding


def _ratio(finding: Finding, facts: Facts, row: Row, study: "SweepDocument") -> Measured | None:
    stated, base = facts.retention(row), quantity(finding.quantity).base
    if stated is None:
        return None
    for cell in study.cells:
        near = cell.retention is not None and abs(cell.retention.realised - float(stated.value)) <= _NEAR
        if cell.method != row.method or cell.retention is None or not near:
            continue
        timed = {"prefill": cell.prefill_speedup, "total": cell.total_speedup}.get(base)
        if timed is not None:
            return Measured(
                value=timed.value,
                ci95=timed.ci95,
                method=cell.method,
                retention=cell.retention.realised,
                samples=timed.samples,
            )
        if (exact := _exact(base, cell, study)) is not None:
            return Measured(value=exact, ci95=(exact, exact), method=cell.method, retention=cell.retention.realised)
    return None


def _exact(base: str, cell: "CellSummary", study: "SweepDocument") -> float | None:
    """A ratio of counted work or cache bytes; None if they are unknown."""
    dense = study.dense
    if dense is None:
        return None
    if base in ("flops", "macs"):
        return dense.counted_macs / cell.counted_macs if cell.counted_macs else None
    return dense.kv_bytes / cell.kv_bytes if base == "kv" and cell.kv_bytes else None


def _break_even(row: Row, study: "SweepDocument") -> Measured | None:
    found = study.break_even_by_method.get(row.method or "", {}).get("total_ms")
    if found is None or found.retention is None or found.ci95 is None:
        return None
    return Measured(value=found.retention, ci95=found.ci95, method=row.method or "", retention=found.retention)
