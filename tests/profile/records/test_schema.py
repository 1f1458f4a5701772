"""The records of measurements."""

import pytest
from pydantic import ValidationError

from tests.profile.examples import dense, measurement, shape
from trio_profile.records.record import Record
from trio_profile.records.schema import Fidelity, Measurement, Retention, Shape

RETENTION = {"nominal": 0.5, "layer_average": 0.5, "final_layer": 0.2, "realised": 0.5}


def problems(kind: type[Record], fields: dict) -> list[str]:
    """The fields that the record refuses."""
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(fields)
    return [".".join(map(str, error["loc"])) for error in caught.value.errors()]


def test_a_retention_is_a_share():
    for name in RETENTION:
        for value in (-0.1, 1.1):
            assert problems(Retention, {**RETENTION, name: value}) == [name]


def test_a_decoder_has_layers_and_sizes():
    fields = shape().model_dump()
    for name in ("num_layers", "hidden", "batch", "visual_tokens"):
        assert problems(Shape, {**fields, name: 0}) == [name]
    assert problems(Shape, {**fields, "text_after": -1}) == ["text_after"]


def test_the_lists_of_fidelity_have_one_value_for_each_question():
    for fields in (
        {"top1": [True]},
        {"same": [True]},
        {"correct": [True, True, True]},
        {"draws": 0},
        {"draws": 4},
        {"kl_nats": [], "top1": []},
    ):
        assert problems(Fidelity, {"kl_nats": [0.1, 0.2], "top1": [True, False], **fields})


def test_the_dense_model_has_a_kind_for_each_answer():
    fields = dense().model_dump()
    assert problems(type(dense()), {**fields, "correct": [True, False], "kinds": ["what"]}) == [""]
    assert problems(type(dense()), {**fields, "kv_bytes": -1}) == ["kv_bytes"]


def test_a_cell_has_a_budget_for_each_layer_and_counts_that_a_file_can_hold():
    for changes, says in (
        ({"layers": [1, 2]}, "2 layers and 3 budgets belong together"),
        ({"kv_bytes": 2**70}, "less"),
    ):
        with pytest.raises(ValidationError, match=says):
            Measurement.model_validate({**measurement().model_dump(), **changes})


def test_the_record_of_a_cell_has_no_times():
    assert "timings" not in measurement().model_dump() and "timings" not in measurement().model_dump_json()
