import pytest

from tests.profile.faking import FakeTables
from trio_profile.cost.prediction import FORMULA, LEFT_OUT_MS, Prediction, size
from trio_profile.records.schema import Shape

SHAPE = Shape(
    num_layers=2, hidden=8, intermediate=16, query_width=8, kv_width=4, heads=2, vocabulary=10, ffn_matrices=3,
    itemsize=2, batch=1, visual_tokens=90, text_tokens=10,
)  # fmt: skip


def test_a_prefill_is_the_sum_of_its_operators():
    prefill = Prediction(FakeTables(), SHAPE, [(3, "gemm", (5, 6, 7)), (2, "encoder", (5, 2, 4, 1))])
    layer = 100 * (16 * 8 + 8 * 8 + 32 * 8 + 8 * 16), 100 + 2 * 8 * 100 * 8 + 2 * 100 * 3 * 16
    assert 1e6 * prefill.layer(100) == pytest.approx([*layer, 0])
    assert 1e6 * prefill.encoding == pytest.approx([3 * 5 * 6 * 7, 0, 2 * 5])
    low, high = prefill.whole()
    assert 1e6 * low == pytest.approx(2 * sum(layer) + 10 * 8 + 3 * 5 * 6 * 7 + 2 * 5)
    assert high - low == pytest.approx(2 * LEFT_OUT_MS)


def test_a_selection_waits_once_or_pays_for_each_launch_and_wait():
    declared = {"gemms": ["2: 4, hidden, 2 kv_width"], "float32": "visual", "launches": 5, "waits": 2, "copied": "4e6"}
    low, high = Prediction(FakeTables(), SHAPE).selections(declared, (50, 50))
    assert (low, high - low) == pytest.approx((1e-6 * (2 * 4 * 8 * 8 + 90) + 0.01, 5 * 0.01 + 2 * 0.06 + 1 - 0.01))
    assert size("2 tokens hidden + 4", {"tokens": 3, "hidden": 5}) == 34


def test_a_step_of_the_table_is_a_cliff():
    tables = FakeTables()
    tables.attention = lambda tokens, *_: FORMULA * (tokens > 104)
    assert Prediction(tables, SHAPE).cliff(102)[:2] == (104, 112)
    assert Prediction(tables, SHAPE).cliff(300) is None
