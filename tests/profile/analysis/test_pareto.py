from hypothesis import given
from hypothesis import strategies as st

from trio_profile.analysis.pareto import front


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
