"""Values with their intervals: one shape in Python, and the names in JSON that scripts rely on."""

import json

import pytest

from trio_profile.records.estimate import Accuracy, Estimate, Measured, Milliseconds, Share


def every_class(of: type[Estimate] = Estimate) -> list[type[Estimate]]:
    """Every class of estimates that has a unit."""
    below = [found for cls in of.__subclasses__() for found in every_class(cls)]
    return [*([of] if of.unit else []), *below]


@pytest.mark.parametrize("cls", every_class(), ids=lambda cls: cls.__name__)
def test_every_class_says_its_unit_and_reads_back_what_it_writes(cls):
    stopped = {"stopped": "converged"} if issubclass(cls, Measured) else {}
    found = cls(value=0.5, ci95=(0.4, 0.6), samples=12, **stopped)
    assert cls.model_validate_json(found.model_dump_json()) == found
    assert found.value == 0.5


def test_a_median_and_a_share_keep_their_names_in_json():
    median = Milliseconds(value=12.0, ci95=(11.0, 13.0), samples=9, stopped="budget")
    assert json.loads(median.model_dump_json()) == {
        "median": 12.0,
        "ci95": [11.0, 13.0],
        "samples": 9,
        "sessions": 1,
        "stopped": "budget",
    }
    assert set(Share(value=0.5, ci95=(0, 1), samples=2).model_dump()) == {"share", "ci95", "samples"}
    assert set(Accuracy(value=0.5, ci95=(0, 1), samples=2).model_dump()) == {"value", "ci95", "samples"}
