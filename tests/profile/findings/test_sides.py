"""The studies of a side-by-side report one by one."""

from tests.profile.documents import swept
from tests.profile.examples import session, study
from tests.profile.reading import in_terminal
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.recommendation import Confidence
from trio_profile.analysis.side_by_side import SideBySide, side_by_side
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import sides
from trio_profile.findings.blocks import Sentences, Table, Terms
from trio_profile.findings.side_by_side import report
from trio_profile.records.schema import Cell

BUSY = Doubt(
    cell=Cell(method="trio", retention=0.11),
    kind="busy",
    sentence="it was busy",
    next_step="wait",
    found=2,
    threshold=1,
)
WHOLE = Doubt(cell=None, kind="clock", sentence="it changed", next_step="wait", found=2, threshold=1)


def of_pocket() -> SweepDocument:
    asked = study(retentions=(0.11, 0.55), model="pocket")
    return swept().model_copy(
        update={"study": asked, "sessions": (session(command="second"), session(command="third"))}
    )


def both() -> SideBySide:
    first = swept().model_copy(update={"doubts": [WHOLE, BUSY], "sessions": (session(command="first"),)})
    return side_by_side(["A", "B"], [first, of_pocket().model_copy(update={"doubts": []})])


def test_each_study_keeps_its_doubts():
    page = sides.doubts_page(both())
    told = [block for block in page.blocks if isinstance(block, Sentences)]
    assert [(block.heading, block.lines[0]) for block in told] == [
        ("A", "Doubts about single cells: 1 of 2 (busy 1). Doubts about the whole study: clock."),
        ("A: the whole study", "clock: it changed. Next step: wait."),
        ("A: single cells, the strongest doubt of each kind", "trio at 11.0 %: busy: it was busy. Next step: wait."),
        ("B", "No cell is doubted."),
    ]
    assert page.id == "doubts"


def test_the_speed_ups_of_a_doubted_cell_are_marked_in_its_study_alone():
    [table] = [block for block in report(both()).pages[0].blocks if isinstance(block, Table)]
    marked = [(row[1].text, place) for row in table.rows for place, entry in enumerate(row) if entry.doubt]
    assert marked == [("11.0 %", 2), ("11.0 %", 5)]
    assert [table.columns[place] for _, place in marked] == ["A", "A"]


def test_a_toy_among_the_studies_has_its_banner():
    found = report(both())
    assert "The weights of llava-1.5-7b are random" in found.banner and "pocket is a toy model" in found.banner
    assert "pocket is a toy model" in " ".join(in_terminal(found).split())
    models = [swept().model_copy(update={"study": study(model="owner/name")})] * 2
    assert report(side_by_side(["A", "B"], models)).banner == ""


def test_the_badge_is_that_of_the_weakest_study_with_the_reasons_of_each():
    found = both()
    doubted = found.sides[1].recommendation.model_copy(
        update={"confidence": Confidence(level="low", reasons=("one process",))}
    )
    second = found.sides[1].model_copy(update={"recommendation": doubted})
    badge = sides.confidence(found.model_copy(update={"sides": (found.sides[0], second)}))
    assert badge is not None and badge.level == "low"
    assert badge.why == "A: medium, no answers are known. B: low, one process"


def test_each_study_has_its_sessions():
    blocks = sides.studies_page(both()).blocks
    assert [type(block) for block in blocks] == [Terms, Table, Terms, Table]
    tables = [block for block in blocks if isinstance(block, Table)]
    assert [table.caption for table in tables] == ["Sessions of A", "Sessions of B"]
    assert [[row[-1].text for row in table.rows] for table in tables] == [["first"], ["second", "third"]]


def test_what_each_study_recommends_stands_on_the_first_page():
    found = sides.recommendations(both())
    assert [line[:3] for line in found.lines] == ["A: ", "B: "]
    assert found in report(both()).pages[0].blocks
