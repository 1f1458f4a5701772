"""Which records the doubts about a study look at."""

import pytest

from tests.profile.examples import dense, failed, in_processes, measurement, rounds_of, session, study
from trio_profile.analysis.stability import doubts


def test_a_sound_study_has_no_doubt():
    cells = [in_processes(measurement(retention=retention)) for retention in (0.11, 0.55)]
    sessions = [session(id=str(number), busy=0.0) for number in range(4)]
    assert doubts(study(), [*cells, failed(retention=0.2)], dense(), sessions, rounds_of(*cells)) == []
    assert doubts(study(), []) == []


def test_warm_ups_raise_no_doubt():
    cell = in_processes(measurement())
    slow = [one.model_copy(update={"phase": "warm-up", "strangers": 3}) for one in rounds_of(cell)[:1]]
    assert doubts(study(), [cell], None, [], [*slow, *rounds_of(cell)]) == []
    counting = [slow[0].model_copy(update={"phase": "prefill"})]
    assert [doubt.kind for doubt in doubts(study(), [cell], None, [], [*counting, *rounds_of(cell)])] == ["strangers"]


def test_a_session_that_only_counted_casts_no_doubt_on_times():
    """The first process counts and asks questions; its machine may be busy."""
    cell = in_processes(measurement(), 2)
    sessions = [session(id=name, busy=busy) for name, busy in (("counted", 0.9), ("0", 0.0), ("1", 0.0))]
    assert doubts(study(), [cell], None, sessions, rounds_of(cell)) == []
    sessions[2] = session(id="1", busy=0.9)
    (doubt,) = doubts(study(), [cell], None, sessions, rounds_of(cell))
    assert (doubt.kind, doubt.found) == ("busy", 0.9) and "1 of 2 sessions" in doubt.sentence


def test_doubts_about_the_whole_study_come_before_those_about_cells():
    whole, cut = in_processes(measurement()), in_processes(measurement(retention=0.5), 2)
    cut = cut.model_copy(update={"reason": "out of memory"})
    rounds = [one.model_copy(update={"strangers": 1}) for one in rounds_of(whole, cut)]
    found = doubts(study(), [whole, cut], None, [], rounds)
    assert [(doubt.kind, doubt.cell) for doubt in found] == [("strangers", None), ("sessions", cut.cell)]
    assert (found[1].found, found[1].threshold) == (2, pytest.approx(4)) and "out of memory" in found[1].sentence
