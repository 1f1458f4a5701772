"""The page of several studies: how they differ, and one table of their cells."""

from tests.profile.documents import swept
from tests.profile.examples import answered, document, environment, measurement, session, study
from tests.profile.reading import blocks, sentences, too_wide
from trio_profile.analysis.doubts import Doubt
from trio_profile.analysis.recommendation import Confidence
from trio_profile.analysis.side_by_side import SideBySide, side_by_side
from trio_profile.findings.blocks import Entry, Report, Sentences, Table
from trio_profile.findings.side_by_side import report
from trio_profile.records.estimate import SpeedupRatio
from trio_profile.records.schema import Cell

BUSY = Doubt(cell=Cell(method="trio", retention=0.11), kind="busy", sentence="s", next_step="n", found=2, threshold=1)
WHOLE = BUSY.model_copy(update={"cell": None, "kind": "clock"})


def page(found: Report, name: str) -> Report:
    """The report with one page alone."""
    return Report("", "", [], [one for one in found.pages if one.id == name])


def both() -> SideBySide:
    """A study with doubts, and one of the pocket model without."""
    first = swept().model_copy(update={"doubts": [WHOLE, BUSY], "sessions": (session(command="first"),)})
    sessions = (session(command="second"), session(command="third"))
    asked = study(retentions=(0.11, 0.55), model="pocket")
    second = swept().model_copy(update={"study": asked, "sessions": sessions, "doubts": []})
    return side_by_side(["A", "B"], [first, second])


def test_only_the_first_page_is_in_sight():
    found = report(both())
    assert [one.id for one in found.pages if not one.folded] == ["side-by-side"]
    assert [one.id for one in found.pages][1:] == ["doubts", "studies", "numbers"]
    assert not list(too_wide(found))


def test_what_is_unlike_is_said():
    other = swept().model_copy(update={"environment": environment(device_name="NVIDIA A100", cuda=None)})
    found = report(side_by_side(["A", "B"], [swept(), other]))
    (unlike,) = [block for block in blocks(found, Sentences) if block.heading == "In what the studies differ"]
    assert any("device name NVIDIA H200 in A, NVIDIA A100 in B" in line for line in unlike.lines)
    assert any("cuda 13.0 in A, not known in B" in line for line in unlike.lines)
    assert found.facts == ["A: NVIDIA H200", "B: NVIDIA A100"]
    assert any(
        "have the same model" in line for line in sentences(report(side_by_side(["A", "B"], [swept(), swept()])))
    )


def column(found: Report, name: str) -> list[Entry]:
    """The entries of a column of the table."""
    table = blocks(found, Table)[0]
    return [row[table.columns.index(name)] for row in table.rows]


def test_each_study_has_a_row_with_its_ratio_to_the_first_and_counts_that_differ_are_named():
    other = swept(factor=1.5)
    cells = [other.cells[0].model_copy(update={"kv_bytes": 1234}), other.cells[1]]
    found = report(side_by_side(["A", "B"], [swept(), other.model_copy(update={"cells": cells})]))
    assert [entry.text for entry in column(found, "study")] == ["A", "B"] * 2
    first, ratio, *_ = column(found, "prefill / A")
    assert first.text == "–" and ratio.text.startswith("0.6") and ratio.note.startswith("[0.6") and ratio.tone == "loss"
    assert "smaller in 2" in sentences(found)[0]
    counts = [(entry.text, entry.title) for entry in column(found, "exact counts")[:2]]
    assert counts == [("differ", "bytes of the KV cache")] * 2


def test_the_farthest_of_the_measurable_ratios_is_named_in_either_direction():
    def told(*ratios: tuple[float, float, float]) -> str:
        one = side_by_side(["A", "B"], [swept(), swept()])
        cells = [
            cell.model_copy(update={"prefill_ratios": (None, made)})
            for cell, (value, low, high) in zip(one.cells, ratios, strict=True)
            if (made := SpeedupRatio(value=value, ci95=(low, high), samples=12, sessions=4))
        ]
        return sentences(report(one.model_copy(update={"cells": tuple(cells)})))[0]

    assert "trio at 55.0 %, 0.50×" in told((1.6, 1.5, 1.7), (0.5, 0.4, 0.6))
    assert "trio at 55.0 %, 1.20×" in told((1.5, 0.8, 2.2), (1.2, 1.1, 1.3))
    assert "in 0 and smaller in 0." in told((1.5, 0.8, 2.2), (1.2, 0.9, 1.3))


def test_answers_stand_in_the_table_where_they_are_known():
    assert "right − A" not in blocks(report(side_by_side(["A", "B"], [swept(), swept()])), Table)[0].columns
    unpruned, cells = answered([measurement()], needs=0.1)
    _, worse = answered([measurement()], needs=0.6)
    asked = study(retentions=(0.11,))
    documents = [document(asked, some, unpruned=unpruned) for some in (cells, worse)]
    assert [entry.tone for entry in column(report(side_by_side(["A", "B"], documents)), "right − A")] == ["", "loss"]


def test_studies_without_a_common_cell_end_after_their_differences():
    found = report(side_by_side(["A", "B"], [swept(retentions=(0.11,)), swept(retentions=(0.55,))]))
    assert [one.id for one in found.pages] == ["side-by-side"] and not blocks(found, Table)
    assert sentences(found)[0] == "No two of these studies have a cell in common."


def test_each_study_keeps_its_doubts_its_recommendation_and_its_sessions():
    found = report(both())
    told = [(block.heading, block.lines[0]) for block in blocks(page(found, "doubts"), Sentences)]
    assert [heading for heading, _ in told] == [
        *("A", "A: the whole study", "A: single cells, the strongest doubt of each kind", "B"),
    ]
    tables = blocks(page(found, "studies"), Table)
    assert [[row[-1].text for row in one.rows] for one in tables] == [["first"], ["second", "third"]]
    (said,) = [block for block in blocks(found, Sentences) if block.heading == "What each study recommends"]
    assert [line[:3] for line in said.lines] == ["A: ", "B: "]
    assert "pocket is a toy model" in found.banner and "random numbers" in found.banner


def test_a_doubted_cell_is_marked_in_its_study_alone():
    assert [bool(entry.doubt) for entry in column(report(both()), "study")] == [True, False, False, False]


def test_each_study_has_its_badge():
    found = both()
    low = Confidence(level="low", reasons=("one process",))
    doubted = found.sides[1].recommendation.model_copy(update={"confidence": low})
    second = found.sides[1].model_copy(update={"recommendation": doubted})
    badges = report(found.model_copy(update={"sides": (found.sides[0], second)})).confidence
    assert [(badge.title, badge.why) for badge in badges] == [
        ("Confidence in the study A: medium", "no answers are known"),
        ("Confidence in the study B: low", "one process"),
    ]
