"""Records that contradict each other."""

import pytest

from tests.profile.examples import answered, dense, environment, failed, measurement, session, study
from trio_profile.errors import StoreError
from trio_profile.records.contents import Contents
from trio_profile.records.schema import TimingLine


@pytest.fixture
def contents() -> Contents:
    found = Contents(study())
    found.add(session())
    return found


def refused(contents: Contents, record) -> str:
    """Why a record is refused. Nothing is added."""
    before = (list(contents.sessions), contents.dense, dict(contents.cells))
    with pytest.raises(StoreError) as caught:
        contents.add(record)
    assert (contents.sessions, contents.dense, contents.cells) == before
    return str(caught.value)


def test_a_record_of_an_unknown_session_is_refused(contents):
    for record in (dense(), measurement(), failed()):
        assert "'other' is no session of this file" in refused(contents, record.model_copy(update={"session": "other"}))
    cell = measurement()
    timings = (cell.timings[0].model_copy(update={"session": "other"}),)
    assert "'other' is no session" in refused(contents, cell.model_copy(update={"timings": timings}))


def test_a_session_has_a_name_of_its_own_and_the_same_kind_of_machine(contents):
    assert "is an earlier session" in refused(contents, session())
    other = session(id="other", environment=environment(torch="1.0"))
    assert "ran on another kind of machine" in refused(contents, other)


def test_times_of_a_cell_that_was_not_counted_are_refused(contents):
    times = TimingLine(cell=measurement().cell, **dict(measurement().timings[0]))
    assert refused(contents, times) == "timing.cell: trio at 0.11 was not counted"
    contents.add(failed())
    assert "was not counted" in refused(contents, times)


def test_a_cell_that_ran_has_its_counts(contents):
    for name in ("retention", "counted", "kv_bytes", "fastv_macs"):
        assert f"measurement.{name}: it is missing" in refused(contents, measurement().model_copy(update={name: None}))


def test_the_pruned_model_answers_the_questions_of_the_dense_model(contents):
    whole, [cell] = answered([measurement()])
    contents.add(whole.model_copy(update={"correct": whole.correct[:-1]}))
    assert refused(contents, cell) == "measurement.fidelity.correct: 300 answers, and the dense model gave 299"


def test_a_failure_keeps_the_times_of_earlier_sessions(contents):
    contents.add(measurement())
    contents.add(failed())
    [cell] = contents.measurements
    assert cell.status == "done" and cell.timings and cell.reason


def test_a_store_without_a_session_says_that_nothing_was_measured():
    with pytest.raises(StoreError, match="nothing was measured: run the same command again"):
        _ = Contents(study()).environment


def test_times_of_a_session_are_added_once(contents):
    cell = measurement()
    contents.add(cell)
    times = TimingLine(cell=cell.cell, **dict(cell.timings[0]))
    assert refused(contents, times) == f"timing.session: {cell.timings[0].session!r} has times of this cell already"
    with pytest.raises(ValueError, match="a session has times of this cell twice"):
        cell.model_validate({**dict(cell), "timings": cell.timings * 2})


def test_a_field_that_an_old_session_lacks_is_not_compared():
    found = Contents(study())
    found.add(session(id="old", environment=environment(wait_policy="", allocator="")))
    found.add(session(id="passive", environment=environment(wait_policy="passive")))
    assert "another kind of machine" in refused(
        found, session(id="active", environment=environment(wait_policy="active"))
    )
