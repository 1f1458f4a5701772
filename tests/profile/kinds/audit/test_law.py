"""The law over whole audits: see tests/profile/law.py."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.audit.auditing import audit_of
from tests.profile.law import SEEN, law, numbers
from trio_profile.kinds.audit.document import AuditDocument, Finding, Verdict, conclude

findings = st.builds(
    lambda base, verdict: base.model_copy(update={"verdict": verdict}),
    st.sampled_from(audit_of("trio-2026").claims[:5]),
    st.sampled_from([*["supported"] * 4, *get_args(Verdict)]),
)


@law(150)
@given(st.lists(findings, max_size=5))
def test_no_finding_refutes_the_conclusion(rows: list[Finding]):
    document: AuditDocument = audit_of("trio-2026").model_copy(update={"claims": tuple(rows)})
    found = conclude(document)
    SEEN["audit"][found.word] += 1
    follow = sum(row.verdict == "supported" for row in rows)
    contradict = sum(row.verdict in ("overstated", "understated", "not_comparable") for row in rows)
    left = len(rows) - follow - contradict
    assert found.word == ("contradict" if contradict else "not settled" if left or not rows else "follow")
    if rows:
        assert numbers("# finding", found.sentence) == [len(rows)]
        tally = [numbers(f"# {word}", found.sentence) for word in ("follow", "contradict", "are not settled")]
        assert tally == [[follow], [contradict], [left]]
    assert found.sureness != "high" or contradict or document.recomputed == document.figures
    for recomputed in numbers("Recomputed: # of", found.sentence):
        assert recomputed == document.recomputed <= document.figures
