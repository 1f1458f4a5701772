"""Audits of small claims files, for the tests of the checks."""

from pathlib import Path

import yaml

from trio_profile.judge.audit.document import AuditDocument, audit
from trio_profile.judge.audit.finding import Finding
from trio_profile.judge.audit.reader import of_source
from trio_profile.judge.audit.source import parse

MODEL = "{layers: 32, hidden: 4096, intermediate: 11008, heads: 32, vocab: 32064, visual_tokens: 576}"
"""The fields of LLaVA-1.5-7B in a claims file."""
NEXT = "repository_readme, llava-next-7b 11.1pct"
LLAVA = "repository_readme, llava-1.5-7b 11.1pct"
"""Places of two rows in the claims of TRIO's paper."""
HOSTILE = "<b>[red]|`x`_\\&%$#{}~^*[/red]</script>"
"""A name that is markup in HTML, in the terminal, in Markdown and in LaTeX."""


def audited(tables: str, *, method: str = "{}", model: str = MODEL, device: str | None = None) -> AuditDocument:
    """The audit of a claims file with these tables.

    method, model: the fields of the method and of the one model. device: that its times are of.
    """
    text = f"paper: 'PRUNE: x'\nmodels:\n  vl: {model}\nmethod: {method}\ntables:\n{tables}"
    return audit(of_source(parse(text, "claims.yaml"), "claims"), device)


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


def audited_paper(text: str) -> AuditDocument:
    """The audit of a whole claims file."""
    return audit(of_source(parse(text, "paper.yaml"), "paper"))


def hostile_claims(directory: Path) -> Path:
    """A claims file in which every name is markup for somebody."""
    tree = {
        "paper": f"PRUNE: {HOSTILE}",
        "source": HOSTILE,
        "models": {HOSTILE: {"layers": "2", "hidden": "8", "intermediate": "16", "heads": "2", "visual_tokens": "20"}},
        "tables": {
            HOSTILE: {"where": HOSTILE, "rows": {"baseline": {"total_s": "8"}, f"{HOSTILE} 5%": {"total_s": "2"}}},
            "b": {"rows": {"baseline": {"total_s": "9"}, f"{HOSTILE} 5%": {"total_s": "3", "total_speedup": "3"}}},
        },
    }
    path = directory / "claims.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path
