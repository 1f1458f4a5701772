"""When a warm-up is over."""

import pytest

from trio_profile.kinds.servers.requests import Request
from trio_profile.kinds.servers.study import Load
from trio_profile.kinds.servers.traffic.segment import agree, keeps_up, window_of, window_seconds


def ended(*times_ms: float) -> list[Request]:
    """Requests that took so long."""
    return [Request(segment=0, measured=False, picture=0, due_ms=0, sent_ms=0, end_ms=time) for time in times_ms]


@pytest.mark.parametrize(("now", "agrees"), [(109, True), (111, False), (91, True), (89, False)])
def test_two_windows_agree_within_a_tenth(now, agrees):
    assert agree(ended(90, 100, 500), ended(now, now, now)) == agrees


def test_a_closed_loop_has_windows_of_at_least_four_answers():
    assert [window_of(Load(loop="closed", value=value)) for value in (1, 4, 7)] == [4, 4, 7]


def test_an_open_loop_has_windows_of_an_eighth_of_the_time_or_of_eight_arrivals():
    assert window_seconds(Load(loop="open", value=40), 60.0) == 7.5
    assert window_seconds(Load(loop="open", value=0.5), 60.0) == 16.0


def test_a_server_keeps_up_if_as_many_end_as_arrive():
    """Looks at (arrived, ended). Ten requests may be under way all the time."""
    times = ended(*[100.0] * 300)
    assert keeps_up([(0, 0), (110, 100), (210, 200)], times)
    assert keeps_up([(0, 0), (60, 5), (160, 100), (260, 200)], times)
    assert not keeps_up([(0, 0), (110, 100), (230, 190)], times)
    assert not keeps_up([(0, 0), (110, 100)], times)
    assert not keeps_up([(0, 0), (3, 3), (6, 6)], times)


def test_a_server_that_becomes_slower_is_not_stable():
    assert not keeps_up([(0, 0), (110, 100), (210, 200)], ended(*[100.0] * 100, *[150.0] * 100))
