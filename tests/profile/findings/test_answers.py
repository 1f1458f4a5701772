"""What pruning does to the answers of a sweep."""

import pytest

from tests.profile.examples import answered, document, measurement, study
from trio_profile.analysis.accuracy import AccuracyKept
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import answers, sweep
from trio_profile.findings.blocks import Chart, Sentences, Table
from trio_profile.records.schema import Cell, Fidelity, Measurement


@pytest.fixture(scope="module")
def quizzed() -> SweepDocument:
    asked = study(methods=("trio", "random"))
    unpruned, told = answered([measurement(cell.method, cell.retention) for cell in asked.cells()])
    return document(asked, told, unpruned=unpruned)


DOUBT = Doubt(cell=Cell(method="trio", retention=0.11), kind="busy", sentence="s", next_step="n", found=2, threshold=1)


def compared() -> Measurement:
    """A cell whose next tokens are compared with those of the dense model."""
    return measurement().model_copy(update={"fidelity": Fidelity(kl_nats=(0.1, 0.2), top1=(True, False))})


def with_kept(found: SweepDocument, **by_share: AccuracyKept) -> SweepDocument:
    shares = {share.replace("_", "."): kept for share, kept in by_share.items()}
    return found.model_copy(update={"accuracy_kept_by_method": {"trio": shares}})


def test_answers_are_in_the_verdict(quizzed: SweepDocument):
    lines = [
        line for block in sweep.verdict_page(quizzed).blocks if isinstance(block, Sentences) for line in block.lines
    ]
    assert any(line.startswith("Of the dense accuracy, trio keeps 99 % from a retention of") for line in lines)
    assert any(line.startswith("trio at 11.0 % answers") and "points less" in line for line in lines)


def test_the_page_has_a_chart_and_two_tables(quizzed: SweepDocument):
    chart, kept, table = answers.answers_page(quizzed).blocks
    assert isinstance(chart, Chart) and chart.caption == "Questions answered right"
    assert isinstance(kept, Table) and [row[0].text for row in kept.rows] == ["trio", "random"]
    assert isinstance(table, Table) and list(table.columns[-2:]) == ["1 hops", "2 hops"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_without_known_answers_the_page_says_how_to_ask():
    first, table = answers.answers_page(document(measurements=[compared()])).blocks
    assert isinstance(first, Sentences) and isinstance(table, Table)
    assert first.lines[0] == "This page says how far the next token moves from dense, not whether answers stay right."
    assert first.lines[1].endswith("Name a file of questions with `--questions FILE`.")


def test_where_nothing_is_known_of_answers_the_page_says_so_first():
    [block] = answers.answers_page(document()).blocks
    assert isinstance(block, Sentences) and block.lines[0] == "No finished cell says anything about answers."


def test_doubted_cells_are_marked(quizzed: SweepDocument):
    doubted = quizzed.model_copy(update={"doubts": [DOUBT]})
    unanswered = document(measurements=[compared()]).model_copy(update={"doubts": [DOUBT]})
    for found in (doubted, unanswered):
        table = answers.answers_page(found).blocks[-1]
        assert isinstance(table, Table)
        marked = [(row[0].text, row[1].text) for row in table.rows if row[1].doubt]
        assert marked == [("trio", "11.0 %")]


def test_each_status_of_the_cheapest_retention_has_its_words(quizzed: SweepDocument):
    found = with_kept(
        quizzed,
        **{
            "0_99": AccuracyKept(status="inconclusive"),
            "0_97": AccuracyKept(status="crossing", retention=0.44, ci95=(0.33, 0.55), prefill_speedup=1.62),
            "0_95": AccuracyKept(status="always", retention=0.11),
        },
    )
    assert list(answers.kept_sentences(found, "trio")) == [
        "Of the dense accuracy, trio keeps 97 % from a retention of 44 % [33, 55] on (prefill 1.62×); "
        "95 % at every retention measured.",
        "Not enough questions to say where trio keeps 99 % of the dense accuracy.",
    ]
    never = with_kept(quizzed, **{"0_99": AccuracyKept(status="never")})
    assert list(answers.kept_sentences(never, "trio")) == [
        "Of the dense accuracy, trio keeps 99 % at no retention measured."
    ]


@pytest.mark.parametrize(
    ("ci95", "text", "note"),
    [((0.22, 0.22), "22.0 %", "prefill 1.50×"), ((0.22, 1.0), "22 %", "[22, 100], prefill 1.50×")],
)
def test_the_cheapest_retention_has_its_interval_and_what_it_saves(quizzed: SweepDocument, ci95, text, note):
    found = with_kept(
        quizzed, **{"0_99": AccuracyKept(status="crossing", retention=0.22, ci95=ci95, prefill_speedup=1.5)}
    )
    table = answers.answers_page(found).blocks[1]
    assert isinstance(table, Table)
    [[_, entry]] = table.rows
    assert (entry.text, entry.note) == (text, note)


def test_shares_that_are_kept_from_the_same_retention_on_are_named_together(quizzed: SweepDocument):
    same = AccuracyKept(status="crossing", retention=0.33, ci95=(0.33, 0.33), prefill_speedup=1.21)
    found = with_kept(quizzed, **{"0_99": same, "0_97": same, "0_95": same})
    assert list(answers.kept_sentences(found, "trio")) == [
        "Of the dense accuracy, trio keeps 99 %, 97 % and 95 % from a retention of 33.0 % on (prefill 1.21×)."
    ]
