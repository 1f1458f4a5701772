"""Audits of small claims files, for the tests of the checks."""

from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.profile.inputs.claims.test_claims import claims
from trio_profile.inputs.claims.claims import Budgets, Row, read
from trio_profile.kinds.audit.document import AuditDocument, Finding
from trio_profile.kinds.audit.run import audit

MODEL = "{layers: 32, hidden: 4096, intermediate: 11008, heads: 32, vocab: 32064, visual_tokens: 576}"
"""The fields of LLaVA-1.5-7B in a claims file."""
NEXT = "repository_readme, llava-next-7b 11.1pct"
LLAVA = "repository_readme, llava-1.5-7b 11.1pct"
"""Places of two rows in the claims of TRIO's paper."""
HOSTILE = "<b>[red]|`x`_\\&%$#{}~^*[/red]</script>"
"""A name that is markup in HTML, in the terminal, in Markdown and in LaTeX."""


@cache
def audit_of(name: str) -> AuditDocument:
    """The audit of built-in claims, made once in a process."""
    return audit(read(name))


def audited(tables: str, *, method: str = "{}", other: str = "576", device: str | None = None) -> AuditDocument:
    """The audit of a claims file with these tables.

    tables: YAML with rows by their label, as `expanded` takes them.
    method: its fields. other: the visual tokens of a second model, `b`. device: that the times are of.
    """
    tree = {
        "paper": "PRUNE: x",
        "models": {"vl": _load(MODEL), "b": _load(MODEL) | {"visual_tokens": other}},
        "method": {"name": "prune"} | _load(method),
        "tables": {name: expanded(table) for name, table in _load(tables).items()},
    }
    return audit(claims(yaml.safe_dump(tree, sort_keys=False)), device)


def expanded(table: dict[str, Any]) -> dict[str, Any]:
    """A table of a claims file, from rows with less to write.

    A label says the row's method and retention: `prune 10%`; `baseline` is the dense row. Fields that a row does not
    have are figures. The model is `vl` if the row names none.
    """
    rows = {}
    for label, fields in table["rows"].items():
        method, _, percent = label.partition(" ")
        row = {"model": "vl", "method": "dense" if method == "baseline" else method}
        row |= {"retention": f"{Decimal(percent[:-1]).scaleb(-2):f}"} if percent else {}
        row |= {"schedule": {key: fields[key] for key in Budgets.model_fields if key in fields}}
        figures = {
            key: value for key, value in fields.items() if not {key} & {*Row.model_fields, *Budgets.model_fields}
        }
        row |= {key: value for key, value in fields.items() if key in Row.model_fields} | {"figures": figures}
        rows[label] = {key: value for key, value in row.items() if value != {}}
    return {**table, "rows": rows}


def _load(text: str) -> dict[str, Any]:
    return yaml.load(text, yaml.BaseLoader)


def of_row(body: str, dense: str, **options) -> AuditDocument:
    """The audit of one table with a dense row and a pruned row."""
    return audited(f"  t:\n    rows:\n      baseline: {dense}\n      prune: {body}\n", **options)


def found(document: AuditDocument, quantity: str, where: str = "", printed: str | None = None) -> Finding:
    """The one finding of a quantity at a place."""
    (one,) = [
        finding
        for finding in document.claims
        if finding.quantity == quantity
        and (where in finding.where.split("; ") or not where)
        and (printed is None or finding.printed == printed)
    ]
    return one


def paper_macs(n: float) -> float:
    """f(n) of the paper for one layer of LLaVA-1.5-7B."""
    return 4 * n * 4096**2 + 2 * n * n * 4096 + 2 * n * 4096 * 11008


def hostile_claims(directory: Path) -> Path:
    """A claims file in which every name is markup for somebody."""
    dense, own = {"model": HOSTILE, "method": "dense"}, {"model": HOSTILE, "method": HOSTILE, "retention": "0.05"}
    tree = {
        "paper": f"PRUNE: {HOSTILE}",
        "source": HOSTILE,
        "models": {HOSTILE: {"layers": "2", "hidden": "8", "intermediate": "16", "heads": "2", "visual_tokens": "20"}},
        "method": {"name": HOSTILE},
        "tables": {
            HOSTILE: {
                "where": HOSTILE,
                "rows": {HOSTILE: dense | {"figures": {"total_s": "8"}}, "a": own | {"figures": {"total_s": "2"}}},
            },
            "b": {
                "rows": {
                    "baseline": dense | {"figures": {"total_s": "9"}},
                    HOSTILE: own | {"figures": {"total_s": "3", "total_speedup": "3"}},
                }
            },
        },
    }
    path = directory / "claims.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path
