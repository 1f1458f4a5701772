"""Values with their intervals: one shape in Python, and the names in JSON that scripts rely on."""

import json

from trio_profile.records.estimate import Accuracy, Milliseconds, Share


def test_a_median_and_a_share_keep_their_names_in_json():
    median = Milliseconds(value=12.0, ci95=(11.0, 13.0), samples=9, stopped="budget")
    assert json.loads(median.model_dump_json()) == {
        "median": 12.0,
        "ci95": [11.0, 13.0],
        "samples": 9,
        "sessions": 1,
        "stopped": "budget",
    }
    assert Milliseconds.model_validate_json(median.model_dump_json()) == median
    assert set(Share(value=0.5, ci95=(0, 1), samples=2).model_dump()) == {"share", "ci95", "samples"}
    assert set(Accuracy(value=0.5, ci95=(0, 1), samples=2).model_dump()) == {"value", "ci95", "samples"}
