"""The records of measurements."""

import pytest
from pydantic import ValidationError

from tests.profile.examples import dense, measurement, shape
from trio_profile.records.record import Record
from trio_profile.records.schema import Fidelity, Measurement, Pair, Removal, Retention, Shape, Timing

FIELDS = {"question": 0, "layer": 1, "kept": 3, "bound": 1.0, "norms": 2.0, "kl_nats": 0.5}
TIMES = {"dense_first": True, "dense_prefill_ms": 2, "dense_total_ms": 3, "prefill_ms": 1, "total_ms": 2}
RETENTION = {"nominal": 0.5, "layer_average": 0.5, "final_layer": 0.2, "realised": 0.5}


def test_an_old_removal_with_the_field_choice_is_read():
    old = Removal.model_validate({**FIELDS, "choice": "random"})
    new = Removal(**FIELDS, selection="random")
    assert old == new
    assert new.model_dump()["selection"] == "random"


def problems(kind: type[Record], fields: dict) -> list[str]:
    """The fields that the record refuses."""
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(fields)
    return [".".join(map(str, error["loc"])) for error in caught.value.errors()]


@pytest.mark.parametrize("value", [0, -1, 1e-300, 1e300, float("inf"), float("nan")])
@pytest.mark.parametrize("field", ["dense_prefill_ms", "prefill_ms", "dense_total_ms", "total_ms", "ttft_ms"])
def test_the_time_of_a_run_is_a_time(field, value):
    assert problems(Pair, {**TIMES, field: value}) == [field]


def test_a_part_may_take_no_time_but_not_less():
    assert Pair(**TIMES, selection_ms=0, vision_ms=0).selection_ms == 0
    assert problems(Pair, {**TIMES, "selection_ms": -0.1}) == ["selection_ms"]


@pytest.mark.parametrize(("field", "value"), [("warmups", -1), ("discarded", -1), ("strangers", -1), ("pairs", [])])
def test_the_times_of_a_cell_have_pairs_and_no_negative_counts(field, value):
    fields = {"stopped": "budget", "pairs": [TIMES], field: value}
    assert problems(Timing, fields) == [field]


@pytest.mark.parametrize("field", RETENTION)
def test_a_retention_is_a_share(field):
    for value in (-0.1, 1.1):
        assert problems(Retention, {**RETENTION, field: value}) == [field]


def test_a_decoder_has_layers_and_sizes():
    fields = shape().model_dump()
    for name in ("num_layers", "hidden", "batch", "visual_tokens"):
        assert problems(Shape, {**fields, name: 0}) == [name]
    assert problems(Shape, {**fields, "text_after": -1}) == ["text_after"]


@pytest.mark.parametrize(
    "fields",
    [
        {"top1": [True]},
        {"same": [True]},
        {"correct": [True, True, True]},
        {"draws": 0},
        {"draws": 4},
        {"kl_nats": [], "top1": []},
    ],
)
def test_the_lists_of_fidelity_have_one_value_for_each_question(fields):
    assert problems(Fidelity, {"kl_nats": [0.1, 0.2], "top1": [True, False], **fields})


def test_the_dense_model_has_a_kind_for_each_answer():
    fields = dense().model_dump()
    assert problems(type(dense()), {**fields, "correct": [True, False], "kinds": ["what"]}) == [""]
    assert problems(type(dense()), {**fields, "kv_bytes": -1}) == ["kv_bytes"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"timings": []}, "the cell is done, but it has no pairs"),
        ({"layers": [1, 2]}, "2 layers and 3 budgets belong together"),
        ({"status": "failed"}, "the cell has failed, but it has times"),
        ({"status": "refused"}, "the cell was refused, but it has times"),
        ({"kv_bytes": 2**70}, "less than"),
    ],
)
def test_a_cell_is_what_its_status_says(changes, says):
    with pytest.raises(ValidationError, match=says):
        Measurement.model_validate({**measurement().model_dump(), **changes})


def test_a_failed_cell_of_version_1_is_read():
    old = {"cell": {"method": "trio", "retention": 0.5}, "status": "failed", "reason": "no memory", "warmups": 0}
    found = Measurement.model_validate({**old, "discarded": 0, "slowed_by": [], "strangers": 0, "pairs": []})
    assert found.timings == () and found.reason == "no memory"


def test_times_of_version_1_without_a_reason_to_stop_are_refused():
    old = {"cell": {"method": "trio", "retention": 0.5}, "status": "failed", "pairs": [TIMES]}
    assert problems(Measurement, old) == ["pairs"]
