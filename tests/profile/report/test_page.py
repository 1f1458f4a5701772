"""The page that says what was asked, where it was measured, and by which sessions."""

from datetime import UTC, datetime

import pytest

from tests.profile.examples import ablation, answered, document, environment, failed, measurement, session, study
from trio_profile.kinds.grid.page import all_cells, report_of
from trio_profile.report.blocks import Page, Table, Terms
from trio_profile.report.columns import without_empty_columns
from trio_profile.report.page import banner, study_page


def shown(*sessions, **fields) -> Page:
    return study_page(document(study(**fields), []).model_copy(update={"sessions": sessions}))


def asked(page: Page) -> dict[str, str]:
    return dict(next(block for block in page.blocks if isinstance(block, Terms)).items)


def rows(page: Page) -> list[dict[str, str]]:
    (table,) = [without_empty_columns(block) for block in page.blocks if isinstance(block, Table)]
    return [{name: entry.text for name, entry in zip(table.columns, row, strict=True)} for row in table.rows]


@pytest.mark.parametrize(
    ("model", "begin"),
    [
        ("pocket", "pocket is a toy"),
        ("smol", "smol is two"),
        ("llava-1.5-7b", "The weights of"),
        ("owner/name", ""),
    ],
)
def test_a_built_in_model_has_a_warning(model: str, begin: str):
    assert banner(model, [session()]).startswith(begin) and bool(banner(model, [session()])) == bool(begin)


def test_the_page_names_the_number_of_processes():
    assert asked(shown(session(), processes=2))["processes"] == "2"
    assert "processes" not in asked(shown(session()))


def test_the_page_and_the_heading_say_the_pixels_of_a_picture_where_the_study_sets_them():
    found = document(study(pixels=(256, 784)), [])
    assert asked(study_page(found))["pixels"] == "256, 784"
    assert "pictures of 256 to 784 pixels" in report_of(found, "trio", []).facts
    assert "pixels" not in asked(shown())


def test_each_session_has_its_start_command_host_and_commit():
    first = session(started=datetime(2026, 11, 22, 9, 30, 5, tzinfo=UTC), command="trio-profile sweep")
    columns = ("session", "started", "host", "commit", "command")
    found = rows(shown(first, session(id="second")))
    assert all(tuple(row) == columns for row in found)
    assert [tuple(row.values()) for row in found] == [
        ("1", "2026-11-22 09:30 UTC", "node-7", "0f3c2a91d7", "trio-profile sweep"),
        ("2", "–", "node-7", "0f3c2a91d7", "–"),
    ]


def test_only_versions_that_differ_are_shown():
    newer = session(id="second", environment=environment(torch="2.12.0"), version="1.1")
    seen = rows(shown(session(version="1.0"), newer))
    assert [row["torch"] for row in seen] == ["2.11.0", "2.12.0"]
    assert [row["trio-profile"] for row in seen] == ["1.0", "1.1"]
    assert "transformers" not in seen[0]


# The table for a paper


def paper_table(document) -> Table:
    page = all_cells(document)
    assert page is not None
    [block] = page.blocks
    assert isinstance(block, Table)
    return block


def test_every_value_has_its_interval_and_the_caption_the_conventions():
    unpruned, cells = answered([measurement(retention=0.11)])
    found = paper_table(document(study(retentions=(0.11, 0.55)), [*cells, failed("trio", 0.55)], unpruned=unpruned))
    columns = ["Method", "Retention", "prefill", "total", "MACs", "f(n)", "KV", "right [95 %]", "points lost"]
    assert list(found.columns) == columns
    assert all("[" in found.rows[0][place].text + found.rows[0][place].note for place in (2, 3, 7, 8))
    for said in (
        "averaged over all decoder layers",
        "1 MAC = 2 FLOPs",
        "dense / pruned",
        "γ = 1",
        "95 % intervals",
        "batch 1",
        "trio at 55.0 % failed: ",
    ):
        assert said in found.caption


def test_without_answers_their_columns_are_left_out():
    assert list(paper_table(document()).columns)[-1] == "KV" and "Right" not in paper_table(document()).caption


def test_an_ablation_names_its_variants():
    assert [row[0].text for row in paper_table(ablation()).rows] == ["trio (k_pos = 1)", "trio (k_pos = 2)", "trio"]
