"""What is recommended: hand-worked cells."""

from hypothesis import given
from hypothesis import strategies as st

from trio_core import methods
from trio_profile.judge.doubts import Doubt
from trio_profile.judge.recommendation import CONTROL, Recommendation, front, keeps_answers, recommend
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.estimate import Difference, Ratio
from trio_profile.records.schema import Cell


def cell(
    method: str,
    retention: float,
    speedup: float,
    lost: float | None = None,
    *,
    width: float = 0.05,
    total: float | None = None,
    questions: int = 200,
    processes: int = 4,
    remark: str = "",
) -> CellSummary:
    """A finished cell. lost: the points of right answers that it loses; None if no answers are known.

    width: how far the ends of the speed-up's interval lie from it. total: the speed-up with decoding.
    """
    low, high = speedup - width, speedup + width
    difference = None
    if lost is not None:
        reach = 300 / questions
        ends = (-lost - reach) / 100, (-lost + reach) / 100
        difference = Difference(value=-lost / 100, ci95=ends, samples=questions)
    return CellSummary(
        method=method,
        status="done",
        remark=remark,
        nominal_retention=retention,
        prefill_speedup=Ratio(value=speedup, ci95=(low, high), samples=48, stopped="converged", sessions=processes),
        total_speedup=total
        and Ratio(value=total, ci95=(total - 0.02, total + 0.02), samples=48, stopped="converged", sessions=processes),
        accuracy_difference=difference,
    )


def doubt(kind: str, about: Cell | None = None) -> Doubt:
    return Doubt(cell=about, kind=kind, sentence="something was found", next_step="look", found=2, threshold=1)


def picked(found: Recommendation) -> tuple[str, float]:
    assert found.pick is not None
    return found.pick.method, found.pick.retention


def test_the_fastest_cell_that_keeps_the_answers_is_recommended():
    """At 11 % it is faster, but it loses fourteen points."""
    cells = [cell("trio", 0.11, 1.7, 14.0), cell("trio", 0.22, 1.4, 0.5), cell("trio", 0.33, 1.2, 0.0)]
    found = recommend(cells, [])
    assert (found.status, picked(found)) == ("use", ("trio", 0.22))
    assert found.below is not None and found.below.retention == 0.11
    assert found.floor == 0.22
    assert keeps_answers(cell("trio", 0.2, 1.5, 2.0)) and not keeps_answers(cell("trio", 0.2, 1.5, 2.5))


def test_a_control_is_never_recommended():
    cells = [cell("downsample", 0.11, 2.7, 0.0, remark="control"), cell("trio", 0.22, 1.4, 0.0)]
    assert picked(recommend(cells, [])) == ("trio", 0.22)
    assert recommend(cells[:1], []) == Recommendation(status="unmeasured")


def test_every_control_of_the_registry_says_so_in_its_remark():
    for name in methods.names():
        reference = methods.find(name).reference
        assert (reference.kind == "control") == (reference.remark == CONTROL), name


def test_methods_that_these_measurements_cannot_tell_apart_are_named_together():
    cells = [
        cell("trio", 0.22, 1.40, 0.0),
        cell("fastv", 0.22, 1.38, 1.0),
        cell("scope", 0.33, 1.20, 0.0),
        cell("dart", 0.11, 1.41, 30.0),
    ]
    found = recommend(cells, [])
    assert picked(found) == ("trio", 0.22)
    assert [tie.method for tie in found.ties] == ["fastv"]


def test_of_cells_that_are_as_fast_the_one_that_loses_least_is_recommended():
    """Chance decides which of the first two is faster."""
    cells = [cell("trio", 0.22, 1.46, 1.9), cell("trio", 0.33, 1.44, 0.0), cell("trio", 0.66, 1.1, 0.0)]
    assert picked(recommend(cells, [])) == ("trio", 0.33)
    gains = [cell("trio", 0.22, 1.46, -0.5), cell("trio", 0.33, 1.44, -1.5)]
    assert picked(recommend(gains, [])) == ("trio", 0.22)


def test_the_limit_is_the_lowest_retention_that_keeps_the_answers_even_if_another_is_faster():
    cells = [cell("trio", 0.11, 1.2, 14.0), cell("trio", 0.22, 1.3, 0.5), cell("trio", 0.33, 1.5, 0.0)]
    found = recommend(cells, [])
    assert picked(found) == ("trio", 0.33) and found.floor == 0.22
    assert found.below is not None and found.below.retention == 0.11
    # Below the first one that loses too much no other counts.
    found = recommend([cell("trio", 0.05, 1.9, 1.0), cell("trio", 0.11, 1.7, 9.0), cell("trio", 0.22, 2.3, 0.0)], [])
    assert found.floor == 0.22 and found.below is not None and found.below.retention == 0.11


def test_a_cell_that_is_slower_with_decoding_does_not_pay():
    cells = [cell("trio", 0.11, 1.7, 0.0, total=0.95), cell("trio", 0.22, 1.4, 0.0, total=1.1)]
    assert picked(recommend(cells, [])) == ("trio", 0.22)
    assert recommend(cells[:1], []).status == "slower"


def test_without_answers_only_the_cost_is_judged():
    found = recommend([cell("trio", 0.11, 1.7), cell("trio", 0.22, 1.4)], [])
    assert (found.status, picked(found), found.below) == ("cost_alone", ("trio", 0.11), None)
    assert found.confidence is not None
    assert (found.confidence.level, found.confidence.reasons) == ("medium", ("no answers are known",))
    found = recommend([cell("trio", 0.11, 1.9), cell("trio", 0.22, 1.4, 0.0)], [])  # answers are known of one cell
    assert (found.status, picked(found)) == ("use", ("trio", 0.22))


def test_the_confidence_of_the_advice_not_to_prune_follows_from_the_intervals():
    slow = cell("trio", 0.9, 0.8, 0.0)
    for cells, expected in (
        ([cell("trio", 0.11, 0.98), cell("trio", 0.9, 0.8)], ("slower", 0.11, "high")),
        ([cell("trio", 0.22, 1.4, 0.0, width=0.5), slow], ("undecided", 0.22, "low")),
        # The one that loses least is named.
        ([cell("trio", 0.11, 1.7, 20.0), cell("trio", 0.22, 1.3, 8.0), slow], ("answers_lost", 0.22, "high")),
    ):
        found = recommend(cells, [])
        assert found.confidence is not None
        assert (found.status, picked(found)[1], found.confidence.level) == expected


def test_the_advice_against_pruning_is_weak_where_the_answers_may_be_kept_after_all():
    found = recommend([cell("trio", 0.11, 1.7, 3.0, questions=100)], [])
    assert found.status == "answers_lost" and found.confidence is not None
    assert found.confidence.level == "medium"
    assert found.confidence.reasons[0].startswith("100 questions do not show that trio at 11.0 % loses more")


def test_confidence_falls_with_each_weakness_of_the_recommended_cell():
    for changed, doubts, level, reason in (
        ({}, [], "high", "4 processes agree"),
        ({"processes": 1}, [], "low", "one process measured it"),
        ({"questions": 50}, [], "medium", "50 questions cannot exclude a loss of 6.0 points"),
        ({"questions": 20}, [], "low", "20 questions cannot exclude a loss of 15.0 points"),
        ({}, [doubt("busy", Cell(method="trio", retention=0.22))], "low", "this cell is doubted: busy"),
        ({}, [doubt("commits")], "low", "the study is doubted: commits"),
        ({}, [doubt("busy", Cell(method="trio", retention=0.33))], "high", "4 processes agree"),
    ):
        found = recommend([cell("trio", 0.22, 1.4, 0.0, **changed)], doubts).confidence
        assert found is not None and found.level == level
        assert found.reasons[0].startswith(reason)


def test_few_questions_weaken_what_is_said_of_answers_and_not_the_speed():
    advice = recommend([cell("trio", 0.22, 1.4, 0.0, questions=24)], [])
    speed, answers = advice.confidence_in_speed, advice.confidence_in_answers
    assert speed is not None and speed.level == "high"
    assert answers is not None and answers.level == "low"


def test_enough_questions_say_which_loss_they_exclude():
    found = recommend([cell("trio", 0.22, 1.4, 0.0, questions=1000)], []).confidence
    assert found is not None and found.level == "high"
    assert found.reasons[-1] == "1\u202f000 questions exclude a loss of more than 0.3 points"


def test_the_front_is_the_one_worked_out_by_hand():
    points = [(3.0, 0.5), (2.0, 0.1), (1.5, 0.1), (2.5, 0.6), (2.0, 0.1)]
    assert front(points) == [0, 1, 4]
    assert front([]) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_a_point_is_off_the_front_exactly_if_a_point_on_it_is_better(points):
    on = front(points)
    for index, (gain, loss) in enumerate(points):
        beaten = any(points[i][0] >= gain and points[i][1] <= loss and points[i] != (gain, loss) for i in on)
        assert beaten != (index in on)
