"""The table of all cells for a paper."""

from tests.profile.documents import layers_document
from tests.profile.examples import ablation, answered, document, failed, measurement, study
from trio_profile.findings.paper import page, table


def test_every_value_has_its_interval_and_the_caption_the_conventions():
    unpruned, cells = answered([measurement(retention=0.11)])
    found = table(document(study(retentions=(0.11, 0.55)), [*cells, failed("trio", 0.55)], unpruned=unpruned))
    columns = ["Method", "Retention", "prefill", "total", "MACs", "f(n)", "KV", "right", "to dense"]
    assert list(found.columns) == columns
    assert all("[" in found.rows[0][place].text + found.rows[0][place].note for place in (2, 3, 7, 8))
    assert found.rows[1][2].text.startswith("failed") and found.rows[1][2].span == 7
    for said in (
        "averaged over all decoder layers",
        "1 MAC = 2 FLOPs",
        "dense / pruned",
        "γ = 1",
        "95 % intervals",
        "batch 1",
    ):
        assert said in found.caption


def test_without_answers_their_columns_are_left_out():
    assert list(table(document()).columns)[-1] == "KV" and "Right" not in table(document()).caption


def test_an_ablation_names_its_variants():
    assert [row[0].text for row in table(ablation()).rows] == ["trio (k_pos = 1)", "trio (k_pos = 2)", "trio"]


def test_a_document_without_cells_has_its_efficiency_table_when_the_table_stands_alone():
    alone = page(layers_document(), alone=True)
    assert alone is not None and alone.id == "efficiency"
    assert page(layers_document()) is None
