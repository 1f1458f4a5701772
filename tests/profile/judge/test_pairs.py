"""Raw pairs as columns, and a document with them."""

import json

from tests.profile.examples import document, in_processes, measurement, pair, session, study, with_pairs
from trio_profile.judge.pairs import COLUMNS, _time_of, json_with_pairs, pairs_of
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.records.schema import Disturbance


def test_every_pair_of_a_cell_stands_in_the_columns_unrounded():
    cell = in_processes(measurement(pairs=3), 2)
    [found] = pairs_of([cell], [session(id="1"), session(id="0")])
    assert (found.method, found.retention, found.options) == ("trio", 0.11, {})
    assert found.session == [2] * 4 + [1] * 4  # the numbers of the document's sessions, in the order of the timings
    assert found.phase == [*["prefill"] * 3, "generation"] * 2
    pairs = [pair for timing in cell.timings for pair in (*timing.pairs, *timing.generations)]
    assert found.times["prefill_ms"] == [pair.pruned.prefill_ms for pair in pairs]
    assert found.times["dense_total_ms"] == [pair.dense.total_ms for pair in pairs]
    assert found.times["total_ms"][:3] == [None] * 3 and found.times["total_ms"][3] is not None
    assert "selection_ms" not in found.times and found.clock_mhz is None
    for name in COLUMNS:
        assert _time_of(pair(100, 50, 20), name) == {
            "prefill_ms": 50,
            "dense_prefill_ms": 100,
            "total_ms": 70,
            "dense_total_ms": 120,
            "ttft_ms": 50,
            "dense_ttft_ms": 100,
        }.get(name)


def test_a_session_that_is_not_known_has_the_number_0():
    assert pairs_of([with_pairs(measurement(), [pair(clock_mhz=7)])], [])[0].session == [0]
    assert pairs_of([with_pairs(measurement(), [pair(clock_mhz=7)])], [])[0].clock_mhz == [7]


def test_a_pair_that_waited_for_a_cpu_is_disturbed():
    waits = [None, Disturbance(seconds=1.0, delay_ms=10.0), Disturbance(seconds=1.0, delay_ms=200.0)]
    cell = with_pairs(measurement(), [pair(disturbance=wait) for wait in waits])
    assert pairs_of([cell], [])[0].disturbed == [None, False, True]


def test_the_json_document_leaves_pairs_out_and_the_other_one_holds_them():
    found = document(study(retentions=(0.11, 0.55)))
    assert "pairs" not in json.loads(found.model_dump_json())
    text = json_with_pairs(found)
    assert SweepDocument.model_validate_json(text) == found
    assert len(json.loads(text)["pairs"]) == 2
    empty = document(measurements=[])
    assert json_with_pairs(empty) == empty.model_dump_json()
