"""The report of one prefill's work: what it draws and says is what its document holds."""

import pytest

from tests.profile.reading import blocks, rows, sentences, table
from tests.profile.studying import make
from trio_profile import units
from trio_profile.cost.reconciliation import Term
from trio_profile.kinds.flops import report as pages
from trio_profile.kinds.flops import run as flops
from trio_profile.kinds.flops.document import FlopsDocument
from trio_profile.report.blocks import Sentences, Table, Waterfall
from trio_profile.report.html import render


@pytest.fixture(scope="module")
def document(without_fvcore) -> FlopsDocument:
    study = make("flops", model="pocket-deep", device="meta", retentions=(0.33,), new_tokens=2)
    return flops.run(study.model_copy(update={"claimed": "1.5e9"}))


def test_every_walk_ends_at_the_sum_of_its_steps(document: FlopsDocument):
    macs = document.counted.torch_flops // 2
    traced = {"fvcore_macs": macs - 7, "fvcore_terms": (Term(name="dead", macs=-5),), "fvcore_residual_macs": -2}
    counted = document.counted.model_copy(update=traced)
    walks = blocks(pages.report(document.model_copy(update={"counted": counted})), Waterfall)
    assert [walk.id for walk in walks] == ["walk", "print", "fvcore"]
    for walk in walks:
        assert walk.last.value == walk.first.value + sum(step.value for step in walk.steps)
    assert walks[0].first.value == document.claimed.fastv_macs
    assert (walks[0].last.value, walks[2].last.value) == (macs, macs - 7)
    assert walks[1].first.value == 1_500_000_000


def test_the_walk_names_every_term_and_the_residual_with_all_digits(document: FlopsDocument):
    walk, _ = blocks(pages.report(document), Waterfall)
    assert [step.name for step in walk.steps] == [*(term.name for term in document.terms), "residual"]
    assert walk.last.exact == units.exact(document.counted.torch_flops // 2)
    assert walk.steps[-1].exact == "0"


def test_every_operator_has_a_row(document: FlopsDocument):
    counted = table(pages.report(document), "Counted")
    assert [row[0] for row in rows(counted)] == [part.op for part in document.ledger]


def test_the_formula_has_a_row_for_each_overhead_factor(document: FlopsDocument):
    (found,) = [block for block in blocks(pages.report(document), Table) if not block.detail]
    assert found.caption.endswith("and the paper's formula with it: Saved = 1 − F_total / (32 · f(576))")
    assert [row[0] for row in rows(found)] == [
        *("assumed by the claim", "declared by the method", "by autograd, the paper's procedure", "by the tail, ours"),
    ]
    assert [row[3] for row in rows(found)] == [units.percent(one.fastv_saved) for one in document.formula_totals]
    assert any(line.startswith("The paper's appendix has γ = 1 + β") for line in sentences(pages.report(document)))


def test_the_unit_of_the_walk_can_be_flops(document: FlopsDocument):
    macs, flops_ = (blocks(pages.report(document, unit), Waterfall)[0] for unit in ("macs", "flops"))
    assert flops_.last.value == 2 * macs.last.value
    assert macs.caption.endswith(", MACs") and flops_.caption.endswith(", FLOPs")
    # The walk from a printed figure begins in the figure's own unit.
    assert blocks(pages.report(document, "flops"), Waterfall)[1].first.value == 1_500_000_000


def test_a_printed_figure_is_held_against_each_convention(document: FlopsDocument):
    nearest = document.conventions[0]
    none, *_ = [line for line in sentences(pages.report(document)) if "convention in use" in line]
    assert none.startswith("No convention in use gives the printed figure") and nearest.code in none
    cut = nearest.model_copy(update={"printed": "truncated"})
    with_text = nearest.model_copy(update={"text_tokens": (5, 5)})
    said = sentences(pages.report(document.model_copy(update={"conventions": (cut, with_text)})))
    gives = f"{nearest.code} gives {units.exact(nearest.value)}. Cut off, not rounded, that is the printed figure."
    assert f"{gives} It counts {nearest.name}." in said
    assert f"{nearest.code} would give the printed figure with 5 text tokens." in said


def test_an_incomplete_count_is_said_to_be_one(document: FlopsDocument):
    lost = document.uncounted[0].model_copy(update={"op": "foreign::<b>mm", "product": True})
    poor = document.model_copy(update={"complete": False, "uncounted": (lost,)})
    (doubt,) = [block for block in blocks(pages.report(poor), Sentences) if block.tone == "doubt"]
    assert doubt.heading.startswith("INCOMPLETE") and "foreign::<b>mm" in doubt.lines[0]
    html = render(pages.report(poor))
    assert "foreign::<b>" not in html and "foreign::&lt;b&gt;mm" in html
