"""The report of the gate: a regression stands out, and whole numbers that did not change stay out of the way."""

import pytest

from tests.profile.examples import environment, study
from tests.profile.reading import blocks, rows, sentences, table
from trio_profile.kinds.gate import report as pages
from trio_profile.kinds.gate.document import GateDocument, Outcome, Verdict
from trio_profile.report.blocks import Table


def verdict(
    quantity: str, outcome: Outcome, base: float, new: float, *, where: str = "trio at 0.55", **more
) -> Verdict:
    """The verdict on a count. more: what a time has beside it."""
    return Verdict(
        **{"quantity": quantity, "verdict": outcome, "where": where, "ci95": None, **more},
        base=base,
        new=new,
        ratio=new / base,
    )


def timed(quantity: str, outcome: Outcome, base: float, new: float, **more) -> Verdict:
    ci95 = (new / base - 0.02, new / base + 0.02)
    return verdict(quantity, outcome, base, new, where="trio at 0.11", ci95=ci95, samples=40, **more)


@pytest.fixture
def document() -> GateDocument:
    return GateDocument(
        environment=environment().model_dump(mode="json"),
        study=study(),
        verdicts=(
            timed("total_over_dense", "pass", 0.8, 0.8),
            verdict("counted_macs", "pass", 10**12, 10**12),
            timed("run_ms", "inconclusive", 12.0, 12.3, note="not interleaved"),
            timed("decode_ms", "inconclusive", 12.0, 12.3, note="not interleaved"),
            timed("prefill_over_dense", "regression", 0.8, 0.9),
            verdict("kept_after_layer_15", "improved", 40, 38),
            verdict("kv_bytes", "regression", 4096, 4097),
        ),
    )


def test_the_table_begins_with_the_worst_and_leaves_out_what_did_not_change(document: GateDocument):
    found = table(pages.report(document), "Worst first")
    assert [row[0] for row in rows(found)] == [
        *("regression", "regression", "inconclusive", "inconclusive", "improved", "pass")
    ]
    assert [row[0].tone for row in found.rows] == ["loss", "loss", "", "", "gain", ""]
    assert "counted_macs" not in [row[1] for row in rows(found)]


def test_nothing_that_moved_needs_no_table(document: GateDocument):
    still = document.model_copy(update={"verdicts": document.verdicts[1:2]})
    report = pages.report(still)
    assert not blocks(report, Table)
    assert sentences(report) == ["1 whole number did not change."]


def test_a_notebook_shows_the_verdicts():
    assert GateDocument(environment={}, study=None, verdicts=())._repr_html_()
