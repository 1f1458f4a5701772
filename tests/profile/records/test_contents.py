"""Records that contradict each other."""

import pytest

from tests.profile.examples import (
    SESSION,
    answered,
    answering,
    counted,
    dense,
    environment,
    failed,
    measurement,
    rounds_of,
    session,
    study,
)
from trio_profile.errors import StoreError
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Answers, Fidelity, Measurement


@pytest.fixture
def contents() -> Contents:
    found = Contents(study())
    found.add(session())
    return found


def refused(contents: Contents, record) -> str:
    """Why a record is refused. Nothing is added."""
    before = (list(contents.sessions), contents.dense, dict(contents.cells), list(contents.rounds))
    with pytest.raises(StoreError) as caught:
        contents.add(record)
    assert (contents.sessions, contents.dense, contents.cells, contents.rounds) == before
    return str(caught.value)


def prefills(cell: Measurement) -> list[float]:
    return [pair.pruned.prefill_ms for pair in cell.pairs]


def test_a_record_of_an_unknown_session_is_refused(contents):
    for record in (dense(), measurement(), failed(), rounds_of(measurement())[0]):
        assert "'other' is no session of this file" in refused(contents, record.model_copy(update={"session": "other"}))


def test_a_session_has_a_name_of_its_own_and_the_same_kind_of_machine(contents):
    assert "is an earlier session" in refused(contents, session())
    other = session(id="other", environment=environment(torch="1.0"))
    assert "ran on another kind of machine" in refused(contents, other)


def test_rounds_of_a_cell_that_was_not_counted_are_refused(contents):
    (first, *_) = rounds_of(measurement())
    says = f"round.runs: cell {measurement().cell.id!r} was not counted"
    assert refused(contents, first) == says
    contents.add(failed())
    assert refused(contents, first) == says


def test_a_cell_is_done_once_a_round_of_it_counts(contents):
    cell = measurement(pairs=2)
    contents.add(counted(cell))
    assert contents.cells[cell.cell.id].status == "counted" and contents.measurements == []
    warm_up, *rounds = rounds_of(cell)
    contents.add(warm_up.model_copy(update={"phase": "warm-up"}))
    contents.add(rounds[0].model_copy(update={"discarded": True}))
    assert contents.measurements == []
    contents.add(rounds[0])
    [found] = contents.measurements
    assert (found.status, prefills(found)) == ("done", prefills(cell)[1:])


def test_a_cell_that_ran_has_its_counts(contents):
    for name in ("retention", "counted", "kv_bytes", "fastv_macs"):
        assert f"measurement.{name}: it is missing" in refused(contents, measurement().model_copy(update={name: None}))


def test_the_pruned_model_answers_the_questions_of_the_dense_model(contents):
    whole, [cell] = answered([measurement()])
    contents.add(whole.model_copy(update={"correct": whole.correct[:-1]}))
    assert refused(contents, cell) == "measurement.fidelity.correct: 300 answers, and the dense model gave 299"


def test_a_failure_keeps_the_counts_and_the_times_of_earlier_rounds(contents):
    cell = measurement()
    first, *rest = rounds_of(cell)
    contents.add(counted(cell))
    contents.add(failed())
    [found] = contents.measurements
    assert (found.status, found.reason) == ("failed", failed().reason) and found.counted is not None
    contents.add(first)
    contents.add(failed())
    [found] = contents.measurements
    assert (found.status, found.reason, prefills(found)) == ("done", failed().reason, prefills(cell)[:1])
    contents.add(rest[0])
    [found] = contents.measurements
    assert (found.status, found.reason, prefills(found)) == ("done", None, prefills(cell)[:2])


def test_answers_that_do_not_follow_are_refused():
    """The dense model answers a question first, and no question is answered twice."""
    first = dense().model_copy(update={"correct": (True,) * 2, "pictures": (0, 0)})
    found = Contents(study(), sessions=[session()], dense=first)
    cell = answering({}, [True] * 2)
    found.add(counted(cell))
    told = Fidelity(kl_nats=(0.1,), top1=(True,), same=(True,), correct=(True,))
    further = Answers(numbers=(2,), correct=(False,), kinds=("",) * 3, pictures=(0, 1, 2), session=SESSION)
    own = further.model_copy(update={"cell": cell.cell.id, "fidelity": told})
    with pytest.raises(StoreError, match="did not answer these questions"):
        found.add(own)
    for wrong in (further.model_copy(update={"numbers": (3,)}), further.model_copy(update={"numbers": (1,)})):
        with pytest.raises(StoreError, match="do not follow the 2 answers"):
            found.add(wrong)
    for update, says in (
        ({"correct": ()}, "answers.correct: no values"),
        ({"kinds": ("",) * 2}, "answers.kinds: 2 values for 3 questions"),
        ({"pictures": ()}, "answers.pictures: 2 values for 3 questions"),
    ):
        with pytest.raises(StoreError, match=says):
            found.add(further.model_copy(update=update))
    found.add(further)
    found.add(own)
    assert found.dense is not None and found.dense.correct == (True, True, False)
    assert found.cells[cell.cell.id].fidelity.questions == 3
    with pytest.raises(StoreError, match="do not follow"):
        found.add(own)
