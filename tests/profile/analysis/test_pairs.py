"""Raw pairs as columns, and a document with them."""

import json

import pytest

from tests.profile.examples import document, in_processes, measurement, session, study, with_pairs
from trio_profile.analysis.pairs import json_with_pairs, pairs_of, speedups_by_session
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.records.schema import Disturbance


def test_every_pair_of_a_cell_stands_in_the_columns_unrounded():
    cell = in_processes(measurement(pairs=6), 2)
    [found] = pairs_of([cell], [session(id="1"), session(id="0")])
    assert (found.method, found.retention, found.options) == ("trio", 0.11, {})
    assert found.prefill_ms == [pair.prefill_ms for pair in cell.pairs]
    assert found.dense_total_ms == [pair.dense_total_ms for pair in cell.pairs]
    assert found.dense_first == [pair.dense_first for pair in cell.pairs]
    assert found.session == [2] * 6 + [1] * 6  # the numbers of the document's sessions, in the order of the timings
    assert found.ttft_ms is None and found.clock_mhz is None


def test_a_session_that_is_not_known_has_the_number_0():
    assert pairs_of([measurement(pairs=6)], [])[0].session == [0] * 6


def test_a_pair_that_waited_for_a_cpu_is_disturbed():
    pairs = measurement(pairs=3).pairs
    waits = [None, Disturbance(seconds=1.0, delay_ms=10.0), Disturbance(seconds=1.0, delay_ms=200.0)]
    cell = [pair.model_copy(update={"disturbance": wait}) for pair, wait in zip(pairs, waits, strict=True)]
    assert pairs_of([with_pairs(measurement(), cell)], [])[0].disturbed == [None, False, True]


def test_speed_ups_stand_by_session():
    cell = in_processes(measurement(pairs=6), 2)
    [found] = pairs_of([cell], [session(id="0"), session(id="1")])
    ratios = [pair.dense_prefill_ms / pair.prefill_ms for pair in cell.timings[0].pairs]
    assert speedups_by_session(found, "prefill_ms") == [ratios, ratios]


def test_the_json_document_leaves_pairs_out_and_the_other_one_holds_them():
    found = document(study(retentions=(0.11, 0.55)))
    assert "pairs" not in json.loads(found.model_dump_json())
    text = json_with_pairs(found)
    assert SweepDocument.model_validate_json(text) == found
    assert len(json.loads(text)["pairs"]) == 2
    assert "null" not in json.dumps(json.loads(text)["pairs"][0]["prefill_ms"])


def test_a_document_without_pairs_stays_as_it_is():
    empty = document(measurements=[])
    assert json_with_pairs(empty) == empty.model_dump_json()


@pytest.mark.parametrize("name", ["prefill_ms", "total_ms"])
def test_pairs_give_the_speed_up_of_the_document(name):
    found = document(study(retentions=(0.11,)))
    [ratios] = speedups_by_session(found.pairs[0], name)
    speedup = getattr(found.cells[0], name.replace("_ms", "_speedup"))
    assert sorted(ratios)[14] <= speedup.value <= sorted(ratios)[15]
