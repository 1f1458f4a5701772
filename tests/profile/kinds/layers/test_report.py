"""The report of one prefill's time, from a document made by hand: four layers, a stage after the second."""

import pytest

from tests.profile.kinds.layers.kept import layers_at, layers_document
from tests.profile.reading import blocks, line_of, rows, sentences, table, too_wide
from trio_profile.kinds.layers import report as pages
from trio_profile.kinds.layers.document import LayersDocument, conclude
from trio_profile.kinds.layers.report import totals_page
from trio_profile.report.blocks import Chart, Table, Waterfall
from trio_profile.report.html import render

document = pytest.fixture(layers_document)


def test_the_first_page_says_claim_measurement_and_the_most_that_pruning_gains(document: LayersDocument):
    claim, took, most, whole = sentences(pages.report(document))[:4]
    assert claim == "The formula claims 2.50×. Measured, the prefill is 1.33× [1.28, 1.38] as fast as dense."
    assert "It takes 30.0 ms, dense takes 40.0 ms (12 rounds" in took and "the time was up" in took
    # The rest is lm_head alone: 40 ms / 0.2 ms.
    assert most == "If layers and selection took no time, it would be 200.00× as fast as dense."
    assert "69.0 ms, and 70.0 ms dense" in whole and whole.endswith("as fast as dense.")


def test_the_walk_goes_from_the_claim_to_the_sum_of_the_parts(document: LayersDocument):
    (walk,) = blocks(pages.report(document), Waterfall)
    assert walk.first.value == document.attribution[0].added_ms == 16
    assert walk.last.value == pytest.approx(20 + 6 + 4)
    assert walk.first.value + sum(step.value for step in walk.steps) == pytest.approx(walk.last.value)
    assert all(abs(step.value) >= 0.02 * walk.last.value for step in walk.steps if "small step" not in step.name)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prefill_ms": 60.0}, "the parts of the prefill of trio add up to 50.0 % of its time"),
        ({"dense_prefill_ms": 20.0}, "the parts of the prefill of dense add up to 200.0 % of its time"),
        ({"instrumented": 1.5}, "with time stamps inside, the prefill of trio takes 1.50× its time"),
    ],
)
def test_parts_that_are_not_those_of_the_prefill_are_said_first_and_not_drawn(
    document: LayersDocument, changed: dict[str, float], said: str
):
    totals = document.totals
    new = {name: getattr(totals, name).model_copy(update={"value": value}) for name, value in changed.items()}
    cells = [cell.model_copy(update={"totals": totals.model_copy(update=new)}) for cell in document.cells]
    told = document.model_copy(update={**dict(cells[0]), "cells": tuple(cells)})
    report = pages.report(told)
    assert said in sentences(report)[0] and not blocks(report, Waterfall)
    assert line_of(conclude(told)) == f"Not decided: {said}."


def test_the_folded_tables_have_each_layer_each_stage_and_the_cost_of_time_stamps(document: LayersDocument):
    """A dash stands for a part that the method does not have."""
    report = pages.report(document)
    each = table(report, "Each layer")
    assert each.detail and [row[1] for row in rows(each)] == ["636 of 636", "636 of 636", "124 of 636", "124 of 636"]
    assert rows(table(report, "Stages")) == [["2", "576 → 64", "–", "–", "–", "–", "3.50 ms", "0.500 ms"]]
    named, stamped = rows(table(report, "The whole prefill"))
    assert named == ["share in layers, modules and stages", "99.4 %", "97.5 %"]
    assert stamped[0] == "with time stamps, over without" and stamped[1].startswith("1.01×")


def test_the_chart_has_both_models_and_an_upright_for_each_stage(document: LayersDocument):
    (chart,) = blocks(pages.report(document), Chart)
    dense, pruned = chart.series
    assert (dense.name, pruned.name) == ("dense", "trio") and list(pruned.y) == [10, 10, 3, 3]
    assert all(low < y < high for low, y, high in zip(pruned.low, pruned.y, pruned.high, strict=True))
    assert chart.uprights == [2.5]


def test_the_walk_is_in_sight_and_all_fits_the_terminal(document: LayersDocument):
    report = pages.report(document)
    assert [page.id for page in report.pages] == ["walk", "efficiency", "layers", "stages"]
    assert [page.id for page in report.pages if page.folded] == ["layers", "stages"]
    assert not list(too_wide(report))


def test_several_retentions_have_one_table_first_and_then_their_own_pages():
    report = pages.report(layers_at(0.1, 0.5))
    assert [page.id for page in report.pages] == [
        "efficiency",
        *("walk-0.1", "walk-0.5"),
        *(f"{name}-{mark}" for mark in ("0.1", "0.5") for name in ("layers", "stages")),
    ]
    assert report.pages[1].title == "At 10.0 %: from the claimed speed-up to the measured one"
    assert "10.0 % and 50.0 % retention" in report.facts
    ids = [block.id for block in (*blocks(report, Waterfall), *blocks(report, Chart))]
    assert sorted(ids) == ["layers-0.1", "layers-0.5", "walk-0.1", "walk-0.5"]
    assert "At 50.0 %" in render(report) and not list(too_wide(report))


def tables(document: LayersDocument) -> list[Table]:
    return [block for block in totals_page(document).blocks if isinstance(block, Table)]


def test_the_first_table_has_the_papers_columns_and_a_row_for_each_retention():
    first = tables(layers_at(0.11, 0.77))[0]
    assert first.columns[5:] == ("Forward", "Proxy loss", "Backward", "Selection")
    assert rows(first) == [
        ["dense", "100", "110 ms", "40.0 ms", "2 MiB", "40.0 ms [36.0, 44.0]", "–", "–", "–"],
        *(
            [at, "40", "99.0 ms", "30.0 ms", "1 MiB", "26.0 ms [23.4, 28.6]", "–", *stages]
            for at in ("11.0 %", "77.0 %")
            for stages in [("2.00 ms [1.80, 2.20]", "3.50 ms [3.15, 3.85]")]
        ),
    ]


def test_saved_is_given_with_gamma_1_and_by_count_beside_the_budgets():
    document = layers_document()
    saved = tables(document)[1]
    assert "(4 · f(576))" in saved.caption and saved.columns[2] == "Saved, γ = 1"
    assert rows(saved)[0][2:4] == ["60.0 %", "30.0 %"]


def test_a_method_without_a_proxy_loss_has_no_gamma():
    document = layers_document()
    bare = document.efficiency.model_copy(update={"formula_totals": (), "fastv_saved": 0.7})
    cells = (document.cells[0].model_copy(update={"method": "divprune", "efficiency": bare}),)
    saved = tables(document.model_copy(update={"cells": cells}))[1]
    assert saved.columns[2] == "Saved" and rows(saved)[0][2] == "70.0 %"
