"""The paper's efficiency table, from documents made by hand."""

from tests.profile.documents import layers_at, layers_document
from tests.profile.reading import rows, sentences
from trio_profile.kinds.layers import report as pages
from trio_profile.kinds.layers.document import LayersDocument
from trio_profile.kinds.layers.totals import totals_page
from trio_profile.report.blocks import Table


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


def test_saved_is_given_with_gamma_1_and_with_the_counted_factor_beside_the_budgets():
    document = layers_document()
    saved = tables(document)[1]
    assert "(4 · f(576))" in saved.caption and saved.columns[2] == "Saved, γ = 1"
    assert rows(saved)[0][2:6] == ["60.0 %", "0.210", "68.0 %", "30.0 %"]
    assert any("a backward pass that costs nothing" in line for line in sentences(pages.report(document)))


def test_a_method_without_a_proxy_loss_has_no_gamma():
    document = layers_document()
    bare = document.efficiency.model_copy(update={"formula_totals": (), "fastv_saved": 0.7})
    cells = (document.cells[0].model_copy(update={"method": "divprune", "efficiency": bare}),)
    found = pages.report(document.model_copy(update={"cells": cells}))
    saved = next(one for one in tables(document.model_copy(update={"cells": cells})) if "tokens kept" in one.columns)
    assert saved.columns[2] == "Saved" and rows(saved)[0][2:5] == ["70.0 %", "–", "–"]
    assert not any("γ" in line for line in sentences(found))
