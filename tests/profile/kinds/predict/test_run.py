"""`trio-profile predict` with a small table: no extra and no torch."""

import pytest

from tests.places import REPORTS
from tests.profile.kinds.predict.kept import predicted
from tests.profile.reading import sentences
from trio_profile.errors import StoreError, StudyError
from trio_profile.inputs.catalogue import layer_shape
from trio_profile.inputs.sizes import sizes_of
from trio_profile.kinds.predict.document import conclude
from trio_profile.kinds.predict.report import report
from trio_profile.records.documents import write_document
from trio_profile.records.store import Store

SWEEP = str(REPORTS / "llava-1.5-7b-cpu" / "sweep")


def test_each_retention_has_a_range_and_a_word_that_follows_from_it():
    document = predicted(retentions=(0.11, 0.33, 0.99))
    assert [cell.budgets for cell in document.cells[:2]] == [(89, 52, 23), (344, 200, 83)]
    for cell in document.cells:
        assert cell.word == ("do not" if cell.gain[1] <= 1.05 else "try" if cell.gain[0] > 1 else "not decided")
        assert document.dense_ms[0] / cell.pruned_ms[0] == pytest.approx(cell.gain[1])
    assert document.cap[1] > document.cells[0].gain[1] and sum(document.shares) == pytest.approx(1)
    assert 0.33 < document.break_even[0] <= document.break_even[1] <= 0.99


@pytest.mark.parametrize("model", ["llava-1.5-7b", "qwen2.5-vl-7b"])
def test_the_schedules_are_those_that_the_method_would_run(model: str):
    from trio_core import methods

    for name in ("trio", "trio-printed", "fastv"):
        for cell in predicted(model=model, method=name, retentions=(0.33, 0.6, 0.88, 0.97)).cells:
            shape, _ = sizes_of(model, None, 60, 1)
            method = methods.find(name)(retention=cell.retention)
            schedule = method.schedule_in(layer_shape(shape), shape.visual_tokens, shape.num_layers)
            assert (cell.layers, cell.budgets) == (schedule.layers, schedule.budgets)


def test_the_conclusion_is_never_do_and_says_that_nothing_was_measured():
    conclusion = conclude(predicted())
    assert (conclusion.word, conclusion.sureness, conclusion.loss) == ("try", "low", None)
    assert "nothing was measured" in str(conclusion.reasons)
    assert "No engine prunes in the middle of the decoder today" in str(sentences(report(predicted())))


def test_a_measured_study_is_divided_by_its_prediction():
    dense, *cells = predicted(against=SWEEP).against
    assert (dense.name, round(dense.measured_ms), len(cells)) == ("dense", 5956, 4)
    assert dense.ratio == tuple(dense.measured_ms / ms for ms in reversed(dense.predicted_ms))


REFUSED = [
    (
        {"method": "divprune"},
        "'divprune' declares no operators of its selection: choose dart, fastv, grid, random, trio",
    ),
    ({"model": "pocket"}, "the operators of model 'pocket' are not known: choose llava-1.5-7b"),
    ({"model": "qwen3"}, "qwen2.5-vl-7b, qwen3-vl-2b, qwen3-vl-32b, qwen3-vl-8b"),
    ({"tp": 3}, "--tp 3 does not divide the 32 heads"),
    ({"model": "qwen2.5-vl-72b"}, "the weights take 135.4 GiB of each GPU, and fake_gpu has 14.9 GiB"),
    ({"visual_tokens": 5000}, "5060 tokens a sample, and 5193 rows in a product: the table of fake_gpu ends at 4096"),
    ({"against": SWEEP, "method": "fastv"}, "no finished cell of fastv on llava-1.5-7b"),
]


@pytest.mark.parametrize(("fields", "says"), REFUSED)
def test_what_cannot_be_predicted_is_refused_in_one_line(fields, says):
    with pytest.raises(StudyError) as refused:
        predicted(**fields)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_prediction_is_no_measurement(tmp_path):
    write_document(tmp_path / "prediction.json", predicted())
    with pytest.raises(StoreError, match="holds a prediction, not measurements"):
        Store(tmp_path).read()
