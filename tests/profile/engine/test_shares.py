"""Counts and answers that several processes send in parts: they become the records of one process."""

from itertools import permutations

from tests.profile.examples import dense as a_dense
from tests.profile.examples import failed, kept, measurement, picture
from trio_profile.engine.shares import Answers, Parts, shares_of
from trio_profile.records.schema import Dense, Fidelity, Measurement

COUNTED = measurement().model_copy(update={"status": "counted", "timings": (), "kept": kept()})
CELL = COUNTED.cell.id


def answers(*numbers: int, draws: int = 1) -> Answers:
    """A cell's answers to some questions. Of question n and seed d, the divergence is 10 · d + n."""
    kl = tuple(10.0 * draw + number for draw in range(draws) for number in numbers)
    right = tuple(number % 2 == 0 for _ in range(draws) for number in numbers)
    told = Fidelity(kl_nats=kl, top1=right, same=right, correct=right, draws=draws)
    return Answers(cell=CELL, numbers=numbers, fidelity=told)


def test_a_cell_is_complete_with_its_counts_and_all_shares_of_its_answers_in_any_order():
    for parts in permutations([COUNTED, answers(0, 2, 4, draws=2), answers(1, 3, draws=2)]):
        gathered = Parts(2)
        [record] = [record for number, part in enumerate(parts) for record in gathered.add(number, part)]
        assert isinstance(record, Measurement) and record.fidelity is not None
        assert record.cell == COUNTED.cell
        assert record.fidelity.kl_nats == (0, 1, 2, 3, 4, 10, 11, 12, 13, 14)
        assert record.fidelity.same == (True, False, True, False, True) * 2
        assert not list(gathered.add(2, parts[-1])), "a part that comes late changes nothing"


def test_a_process_without_questions_sends_no_answers_and_the_record_is_complete():
    gathered = Parts(3)
    parts = [COUNTED, Answers(cell=CELL, numbers=()), answers(0, 1), Answers(cell=CELL, numbers=())]
    [record] = [record for number, part in enumerate(parts) for record in gathered.add(number, part)]
    assert isinstance(record, Measurement) and record.fidelity == answers(0, 1).fidelity


def test_the_dense_model_has_the_answers_of_all_shares():
    gathered = Parts(2)
    assert list(gathered.add(1, Answers(numbers=(1, 3), correct=(True, False)))) == []
    assert list(gathered.add(0, a_dense())) == []
    [record] = gathered.add(0, Answers(numbers=(0, 2), correct=(False, True)))
    assert isinstance(record, Dense) and record.correct == (False, True, True, False)


def test_without_questions_nothing_is_added_and_a_record_that_failed_is_complete_at_once():
    gathered = Parts(2)
    parts = [COUNTED, Answers(cell=CELL), Answers(cell=CELL)]
    assert [record for number, part in enumerate(parts) for record in gathered.add(number, part)] == [COUNTED]
    assert list(Parts(2).add(0, picture())) == [picture()]
    gathered = Parts(2)
    assert list(gathered.add(0, answers(0))) == []
    assert list(gathered.add(0, failed())) == [failed()]
    assert list(gathered.add(1, COUNTED)) == [], "another share had counted the cell"


def test_a_share_that_is_given_again_doubles_nothing():
    gathered = Parts(2)
    assert list(gathered.add(0, answers(0, 2))) == []
    assert list(gathered.add(0, COUNTED)) == []
    assert list(gathered.add(0, answers(0, 2))) == [], "one share has answered twice"
    [record] = gathered.add(1, answers(1, 3))
    assert isinstance(record, Measurement) and record.fidelity is not None and len(record.fidelity.kl_nats) == 4
    assert [*gathered.add(0, COUNTED), *gathered.add(0, answers(0, 2))] == []


def test_the_process_that_counts_the_dense_model_counts_fewer_cells():
    names = [f"cell {number}" for number in range(10)]
    first, second = shares_of(names, 2, with_dense=True)
    assert sorted(first + second) == sorted(names)
    assert (len(first), len(second)) == (4, 6)
    assert [len(share) for share in shares_of(names, 3, with_dense=False)] == [4, 3, 3]
