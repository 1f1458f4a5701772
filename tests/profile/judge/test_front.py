"""The Pareto front, and which cells keep the answers."""

from hypothesis import given
from hypothesis import strategies as st

from trio_core import methods
from trio_profile.judge.front import CONTROL, front, keeps_answers
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.estimate import Difference, Ratio


def cell(method: str, retention: float, speedup: float, lost: float | None = None, *, remark: str = "") -> CellSummary:
    """A finished cell. lost: the points of right answers that it loses; None if no answers are known."""
    difference = None
    if lost is not None:
        difference = Difference(value=-lost / 100, ci95=((-lost - 1.5) / 100, (-lost + 1.5) / 100), samples=200)
    ends = speedup - 0.05, speedup + 0.05
    return CellSummary(
        method=method,
        status="done",
        remark=remark,
        nominal_retention=retention,
        prefill_speedup=Ratio(value=speedup, ci95=ends, samples=48, stopped="converged", sessions=4),
        accuracy_difference=difference,
    )


def test_two_points_are_tolerated():
    assert keeps_answers(cell("trio", 0.2, 1.5, 2.0))
    assert not keeps_answers(cell("trio", 0.2, 1.5, 2.5))
    assert keeps_answers(cell("trio", 0.2, 1.5))


def test_every_control_of_the_registry_says_so_in_its_remark():
    for name in methods.names():
        reference = methods.find(name).reference
        assert (reference.kind == "control") == (reference.remark == CONTROL), name


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_the_front_holds_what_no_other_point_beats(points):
    indices = front(points)
    for index, (gain, loss) in enumerate(points):
        beaten = any(g >= gain and lost <= loss and (g, lost) != (gain, loss) for g, lost in points)
        assert (index in indices) == (not beaten)
