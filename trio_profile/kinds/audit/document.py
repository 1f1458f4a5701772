"""The audit of a paper's claims: every check on every printed figure, and the document with the findings.

Nothing is measured here, and nothing imports torch.
"""

from collections import Counter
from collections.abc import Iterator

from trio_profile.inputs.claims.claims import Claims, Row
from trio_profile.inputs.claims.facts import Facts
from trio_profile.judge.claims import of_audit
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
from trio_profile.kinds.audit.finding import INCONSISTENT, Finding, Verdict, merged
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import Document
from trio_profile.records.schema import Environment, Study

CHECKS = (ratios, duplicates, dense_work, pruned_work, cache, schedules, sums, break_even, plausible, tower)
"""The checks in the order of the document. Each has a function `check` from the facts to its findings."""
VERDICTS: tuple[Verdict, ...] = (*INCONSISTENT, "underdetermined", "not_checked_at_the_source", "supported")
"""The verdicts in the order in which they are shown: contradictions first."""


class AuditDocument(Document):
    """The document of `trio-profile audit --json`.

    sessions: when and by what the audit was done; the sessions of our own measurements follow.
    environment, study: of our own measurements, if they are compared with the claims.
    name: of the claims file.
    paper, source: as in the file.
    sources: the place of each table in the paper.
    figures: the number of printed figures.
    claims: the findings.
    alone: rows without a finding, because no other figure tests them.
    tally: the number of findings by verdict, in the order of VERDICTS, without zeros.
    """

    environment: Environment | None = None
    study: Study | None = None
    name: str
    paper: str
    source: str | None = None
    sources: dict[str, str]
    figures: int
    claims: tuple[Finding, ...]
    alone: tuple[str, ...]
    tally: dict[Verdict, int]
    report: str | None = None

    @property
    def inconsistent(self) -> bool:
        """Whether any figures contradict each other."""
        return any(finding.inconsistent for finding in self.claims)


def conclude(document: AuditDocument) -> Conclusion:
    """Return whether the paper's figures follow from each other."""
    contradict = sum(finding.inconsistent for finding in document.claims)
    follow = sum(finding.verdict == "supported" for finding in document.claims)
    return of_audit(follow, contradict, len(document.claims) - follow - contradict, document.figures)


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
        figures=sum(map(_figures, claims.rows())),
        claims=findings,
        alone=tuple(_alone(facts, findings)),
        tally={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
    )


def _at_source(facts: Facts, finding: Finding) -> Finding:
    """The finding, without a verdict of its own if it takes a figure that was not read at its source."""
    if all(line.table.checked or not finding.rests_on(line.place) for line in facts.lines):
        return finding
    return finding.model_copy(update={"verdict": "not_checked_at_the_source", "arithmetic": finding.verdict})


def _figures(row: Row) -> int:
    """The number of figures that a row prints. A schedule counts by the average that it states."""
    averages = [row.tokens, row.retention] if row.schedule is not None else []
    return len(row.figures) + len(row.scores) + bool(row.break_even) + len(averages) - averages.count(None)


def _alone(facts: Facts, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Rows without a finding. A dense row counts as tested if another row of its table is."""
    named = {where for finding in findings for where in finding.where.split("; ")}
    tested = {line.label for line in facts.lines if line.place in named}
    for line in facts.lines:
        if line.place not in named and not (line.row.dense and line.label in tested):
            yield line.place
