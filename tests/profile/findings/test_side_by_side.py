"""The page of several studies: what is unlike first, then speed-ups with their ratios."""

from tests.profile.documents import swept
from tests.profile.examples import answered, document, environment, measurement, study
from tests.profile.reading import sentences
from trio_profile.analysis.side_by_side import side_by_side
from trio_profile.findings.blocks import Chart, Report, Sentences, Table
from trio_profile.findings.side_by_side import MOST_CHARTS, report
from trio_profile.records.estimate import SpeedupRatio


def blocks(found: Report, page: str, kind: type) -> list:
    return [block for one in found.pages if one.id == page for block in one.blocks if isinstance(block, kind)]


def test_what_is_unlike_stands_first_in_words():
    other = swept().model_copy(update={"environment": environment(device_name="NVIDIA A100", cuda=None)})
    found = report(side_by_side(["A", "B"], [swept(), other]))
    first, second, *_ = blocks(found, "side-by-side", Sentences)
    assert (first.heading, first.tone) == ("Unlike: machine", "doubt")
    assert first.lines[0] == "The studies ran on different hardware. Compare speed-ups, not times."
    assert first.lines[1] == "device name: NVIDIA H200 in A, NVIDIA A100 in B."
    assert "cuda: 13.0 in A, not known in B." in second.lines
    assert found.facts == ["A: NVIDIA H200", "B: NVIDIA A100"]


def test_studies_that_are_alike_are_said_to_be():
    found = report(side_by_side(["A", "B"], [swept(), swept()]))
    assert "These studies have the same model" in sentences(found)[0]
    assert (found.subject, found.model) == ("A and B", "llava-1.5-7b")


def test_a_ratio_has_its_interval_and_its_colour():
    found = report(side_by_side(["A", "B"], [swept(), swept(factor=1.5)]))
    [table] = blocks(found, "side-by-side", Table)
    assert list(table.columns)[:5] == ["Method", "Retention", "A", "B", "B / A"]
    assert [text for text, _ in table.groups] == ["", "Prefill", "Total"] and table.first == 5
    ratio = table.rows[0][4]
    assert ratio.text.startswith("0.6") and ratio.note.startswith("[0.6") and ratio.tone == "loss"
    assert "smaller in 2" in " ".join(sentences(found))


def test_no_difference_is_said_in_words():
    found = report(side_by_side(["A", "B"], [swept(), swept(seed=2)]))
    assert "Prefill speed-ups of B and A do not differ measurably in any of 2 common cells." in sentences(found)


def test_the_farthest_of_the_measurable_ratios_is_named_in_either_direction():
    def told(*ratios: tuple[float, float, float]) -> str:
        one = side_by_side(["A", "B"], [swept(), swept()])
        cells = [
            cell.model_copy(update={"prefill_ratios": (None, made)})
            for cell, (value, low, high) in zip(one.cells, ratios, strict=True)
            if (made := SpeedupRatio(value=value, ci95=(low, high), samples=12, sessions=4))
        ]
        return " ".join(sentences(report(one.model_copy(update={"cells": tuple(cells)}))))

    assert "farthest apart of these: trio at 55.0 %, 0.50×" in told((1.6, 1.5, 1.7), (0.5, 0.4, 0.6))
    assert "farthest apart of these: trio at 55.0 %, 1.20×" in told((1.5, 0.8, 2.2), (1.2, 1.1, 1.3))
    assert "do not differ measurably in any of 2 common cells" in told((1.5, 0.8, 2.2), (1.2, 0.9, 1.3))


def test_a_chart_has_a_line_for_each_study():
    found = report(side_by_side(["A", "B", "C"], [swept(), swept(), swept(retentions=(0.33,))]))
    [chart] = blocks(found, "side-by-side", Chart)
    assert [series.name for series in chart.series] == ["A", "B", "C"]
    assert [len(series.x) for series in chart.series] == [2, 2, 1]
    assert len({series.colour for series in chart.series}) == 3


def test_charts_are_of_trio_and_of_methods_rather_than_controls():
    asked = study(["random", *(f"method {number}" for number in range(MOST_CHARTS)), "trio"], retentions=(0.11,))
    cells = [measurement(cell.method) for cell in asked.cells()]
    cells[0] = cells[0].model_copy(update={"remark": "control"})
    found = report(side_by_side(["A", "B"], [document(asked, cells)] * 2))
    captions = [chart.caption for chart in blocks(found, "side-by-side", Chart)]
    assert captions == ["Prefill: trio", *(f"Prefill: method {number}" for number in range(MOST_CHARTS - 1))]
    assert len(blocks(found, "side-by-side", Table)[0].rows) == MOST_CHARTS + 2


def test_equal_counts_are_one_sentence_and_others_a_table():
    found = report(side_by_side(["A", "B"], [swept(), swept()]))
    assert "Exact counts are the same in 2 common cells." in sentences(found)
    other = swept()
    cells = [other.cells[0].model_copy(update={"kv_bytes": 1234}), other.cells[1]]
    found = report(side_by_side(["A", "B"], [swept(), other.model_copy(update={"cells": cells})]))
    [table] = blocks(found, "exact", Table)
    assert table.rows[0][2].text == "bytes of the KV cache"
    assert table.rows[0][4].order == 1234


def test_answers_stand_beside_each_other_where_they_are_known():
    assert "answers" not in [page.id for page in report(side_by_side(["A", "B"], [swept(), swept()])).pages]
    unpruned, cells = answered([measurement()], needs=0.1)
    _, worse = answered([measurement()], needs=0.6)
    asked = study(retentions=(0.11,))
    documents = [document(asked, some, unpruned=unpruned) for some in (cells, worse)]
    [table] = blocks(report(side_by_side(["A", "B"], documents)), "answers", Table)
    assert table.rows[0][0].text == "dense" and table.rows[1][-1].tone == "loss"


def test_studies_without_a_common_cell_say_so():
    found = report(side_by_side(["A", "B"], [swept(retentions=(0.11,)), swept(retentions=(0.55,))]))
    said = sentences(found)
    assert "B and A have no timed cell in common." in said and "No two of these studies have a cell in common." in said
