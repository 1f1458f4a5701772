"""Differences between variants, paired question by question."""

import pytest
from scipy.stats import binomtest

from tests.profile import examples
from tests.profile.reading import in_terminal, line_of, too_wide
from trio_profile.engine.plan import method_of
from trio_profile.inputs import catalogue
from trio_profile.kinds.grid import ablate as pages
from trio_profile.kinds.grid.ablate import Ablation, ablate
from trio_profile.kinds.grid.kind import prepare_ablate
from trio_profile.records.schema import Cell, Dense, Study
from trio_profile.report.blocks import Table

known_answers = pytest.fixture(examples.ablation, scope="module")


def test_differences_are_paired_with_the_default(known_answers: Ablation):
    one, two, four = known_answers.groups[0].rows
    assert [row.default for row in (one, two, four)] == [False, False, True]
    assert four.default_difference is None and four.printed == 94.9
    assert one.default_difference is not None and two.default_difference is not None
    assert one.default_difference.value == pytest.approx(-25 / 200)
    assert one.accuracy_difference is not None and one.accuracy_difference.value == pytest.approx(-55 / 200)
    # McNemar's exact test of the same pairs says the same of what is told apart.
    for row, lost, gained in ((one, 30, 5), (two, 4, 4)):
        low, high = row.default_difference.ci95
        assert (not low <= 0 <= high) == (binomtest(lost, lost + gained).pvalue < 0.05)


def test_all_variants_but_those_of_layers_have_the_same_stages():
    study = prepare_ablate(Study(verb="ablate", model="llava-1.5-7b", retentions=(0.5,)))
    shape = catalogue.layer_shape(catalogue.prompt_of_llava())
    named = {cell.options["layers"] for cell in study.cells() if "layers" in cell.options}
    plain = [cell for cell in study.cells() if "layers" not in cell.options]
    schedules = {method_of(cell, study).schedule_in(shape, 576, 32) for cell in plain}
    assert len(plain) > 10 and len(schedules) == 1 and len(named) > 3
    assert schedules.pop().layers == (1, 10, 15)


@pytest.fixture(scope="module")
def unanswered(known_answers: Ablation) -> Ablation:
    default = examples.measurement()
    changed = default.model_copy(update={"cell": Cell(method="trio", retention=0.11, options={"k_pos": 1})})
    return ablate(examples.contents_of(known_answers.study, [default, changed], examples.dense()))


def table_of(found: Ablation) -> Table:
    return next(block for block in pages.verdict_page(found).blocks if isinstance(block, Table))


def with_rows(base: Ablation, *rows) -> Ablation:
    return base.model_copy(update={"groups": [base.groups[0].model_copy(update={"rows": list(rows)})]})


def test_only_the_verdict_is_in_sight(known_answers: Ablation):
    report = pages.report(known_answers)
    assert [page.id for page in report.pages] == ["verdict", "groups", "doubts", "study", "numbers"]
    assert [page.id for page in report.pages if not page.folded] == ["verdict"]


def test_variants_that_differ_from_the_default_are_named(known_answers: Ablation):
    assert known_answers.conclusion is not None
    assert line_of(known_answers.conclusion) == (
        "Matters: of 2 variants, compared with the default, 1 is worse in answers: k_pos 1. None is shown to be better."
    )


def test_a_default_that_was_not_measured_is_not_compared_with():
    study = examples.study(verb="ablate", retentions=(0.11,), ablations={"k_pos": {"1": {"k_pos": 1}, "4": {}}})
    dense = Dense(**{**dict(examples.dense()), "correct": (True,) * 20})
    found = ablate(examples.contents_of(study, [examples.answering({"k_pos": 1}, [True] * 20)], dense))
    assert found.conclusion is not None and found.conclusion.word == "nothing to decide"
    assert table_of(found).rows[0][3].text == "–"


def test_the_table_has_the_default_the_differences_and_what_the_paper_prints(known_answers: Ablation):
    table = table_of(known_answers)
    assert list(table.columns[: table.first]) == [
        *("ablation", "variant", "prefill", "points to default", "KV", "right", "MACs", "mean KL, nats"),
    ]
    assert [(row[1].text, row[1].note) for row in table.rows] == [("1", ""), ("2", ""), ("4", "default")]
    changes = [(row[3].text, row[3].note) for row in table.rows]
    assert changes == [("−12.5", "[−18.0, −6.7]"), ("+0.0", "[−3.1, +3.1]"), ("–", "")]
    assert [row[-1].text for row in table.rows] == ["92.1", "94.6", "94.9"] and table.columns[-1] == "paper"
    assert table.switch is None


def test_several_ablations_and_retentions_have_a_switch_and_a_key(known_answers: Ablation):
    rows = [row.model_copy(update={"nominal_retention": 0.33}) for row in known_answers.groups[0].rows]
    both = [known_answers.groups[0], known_answers.groups[0].model_copy(update={"name": "layers", "rows": rows})]
    study = known_answers.study.model_copy(update={"retentions": (0.11, 0.33)})
    table = table_of(known_answers.model_copy(update={"groups": both, "study": study}))
    assert (table.switch, table.chosen, table.keys) == (0, "", 3)


def test_without_answers_the_mean_kl_stays_in_sight(unanswered: Ablation):
    table = table_of(unanswered)
    assert list(table.columns[: table.first]) == ["ablation", "variant", "prefill", "KV", "MACs", "mean KL, nats"]


def test_the_terminal_shows_ablations_in_80_columns(known_answers: Ablation):
    assert not list(too_wide(pages.report(known_answers)))
    noted = [row.model_copy(update={"notes": ("other code ran",)}) for row in known_answers.groups[0].rows]
    assert "trio (k_pos = 1): other code ran." in in_terminal(pages.report(with_rows(known_answers, *noted)))
