"""Planted faults of the machine, of sessions and of cells are found, and sound records are left alone."""

import pytest

from tests.profile.examples import (
    contents_of,
    environment,
    failed,
    in_processes,
    measurement,
    rounds_of,
    session,
    study,
)
from trio_profile.judge.doubts import doubts
from trio_profile.records.schema import Disturbance, FileDigest, Round, Timed


def test_a_sound_study_has_no_doubt():
    cells = [in_processes(measurement(retention=retention)) for retention in (0.11, 0.55)]
    sessions = [session(id=str(number)) for number in range(4)]
    assert doubts(contents_of(study(), [*cells, failed(retention=0.2)], None, sessions, rounds_of(*cells))) == []
    assert doubts(contents_of(study())) == []


def test_warm_ups_raise_no_doubt():
    cell = in_processes(measurement())
    slow = [one.model_copy(update={"phase": "warm-up", "strangers": 3}) for one in rounds_of(cell)[:1]]
    assert doubts(contents_of(study(), [cell], None, [], [*slow, *rounds_of(cell)])) == []
    counting = [slow[0].model_copy(update={"phase": "prefill"})]
    [strangers] = doubts(contents_of(study(), [cell], None, [], [*counting, *rounds_of(cell)]))
    assert strangers.kind == "strangers"


def test_a_session_that_only_counted_casts_no_doubt_on_times():
    """The first process counts and asks questions; its threads may spin."""
    cell, spins = in_processes(measurement(), 2), environment(wait_policy="active")
    sleeps, on_cpu = environment(wait_policy="passive"), study(device="cpu")
    sessions = [
        session(id=name, environment=where) for name, where in (("counted", spins), ("0", sleeps), ("1", sleeps))
    ]
    assert doubts(contents_of(on_cpu, [cell], None, sessions, rounds_of(cell))) == []
    sessions[2] = session(id="1", environment=spins)
    (doubt,) = doubts(contents_of(on_cpu, [cell], None, sessions, rounds_of(cell)))
    assert (doubt.kind, doubt.found) == ("threads", 1) and "1 of 2 sessions" in doubt.sentence


def test_doubts_about_the_whole_study_come_before_those_about_cells():
    whole, cut = in_processes(measurement()), in_processes(measurement(retention=0.5), 2)
    cut = cut.model_copy(update={"reason": "out of memory"})
    rounds = [one.model_copy(update={"strangers": 1}) for one in rounds_of(whole, cut)]
    raised = doubts(contents_of(study(), [whole, cut], None, [], rounds))
    assert [(doubt.kind, doubt.cell) for doubt in raised] == [("strangers", None), ("sessions", cut.cell)]
    assert (raised[1].found, raised[1].threshold) == (2, 4) and "out of memory" in raised[1].sentence


def found(kind: str, measurements=(), asked=None, sessions=(), rounds=()):
    """The doubts of one kind: number, threshold, sentence and next step."""
    raised = doubts(contents_of(asked or study(), measurements, None, sessions, rounds))
    return [(doubt.found, doubt.threshold, doubt.sentence, doubt.next_step) for doubt in raised if doubt.kind == kind]


def a_round(*waits: Disturbance | None, **fields) -> Round:
    """One dense run, and a run for each disturbance."""
    cells = [Timed(cell=str(number), prefill_ms=5, disturbance=wait) for number, wait in enumerate(waits)]
    return Round(**{"phase": "prefill", "session": "0", "runs": (Timed(prefill_ms=10), *cells), **fields})


def test_slow_and_discarded_rounds_are_counted_with_their_reasons():
    rounds = [a_round(clock_mhz=1980)] * 35 + [a_round(clock_mhz=1400)] * 2
    rounds += [a_round(clock_mhz=1400, discarded=True, slowed_by=("power limit",))] * 3
    [(share, _, sentence, _)] = found("clock", rounds=rounds)
    assert share == pytest.approx(5 / 40) and "(power limit)" in sentence
    assert not found("clock", rounds=[a_round(clock_mhz=mhz) for mhz in (1980, 1500)])  # 75 % of 1980 is 1485


def test_a_busy_cpu_is_a_doubt_where_more_than_half_of_the_runs_waited():
    waited, ran = (Disturbance(seconds=0.5, delay_ms=500 * share) for share in (0.2, 0.01))
    assert not found("busy", rounds=[a_round(waited, ran)] * 10)
    [(share, most, *_)] = found("busy", rounds=[*[a_round(waited, ran)] * 10, a_round(waited, None)])
    assert (share, most) == (pytest.approx(11 / 21), 0.5)
    assert not found("busy", rounds=[a_round(Disturbance(seconds=0.5))])


def test_a_study_of_one_process_is_measured_again_in_several():
    [(*_, sentence, next_step)] = found("sessions", [in_processes(measurement(), 2), measurement(retention=0.5)])
    assert sentence.startswith("one process alone measured 1 of 2 cells") and "--processes 8 --out ANOTHER" in next_step


def test_few_rounds_name_the_time_that_is_enough():
    """Three rounds took 4 s, so six take 8 s, and a fifth is added."""
    few = measurement(pairs=3)
    rounds = [one.model_copy(update={"seconds": 1.0}) for one in rounds_of(few)]
    assert len(rounds) == 4
    [(fewest, least, _, step)] = found("rounds", [few, measurement(retention=0.5)], study(seconds=3), rounds=rounds)
    assert (fewest, least) == (3, 6) and "--seconds 10:" in step  # 9.6
    [(*_, step)] = found("rounds", [few], study(seconds=60), rounds=rounds)
    assert "--seconds 61:" in step  # more than it had
    assert not found("rounds", [measurement(pairs=6)]) and not found("rounds")


def test_threads_that_spin_or_that_nobody_knows_about_are_a_doubt_on_a_cpu_only():
    for policy in ("active", ""):
        policies = enumerate((policy, "passive"))
        sessions = [session(id=str(number), environment=environment(wait_policy=p)) for number, p in policies]
        rounds = [a_round(session=name) for name in "01"]
        [(count, *_)] = found("threads", asked=study(device="cpu"), sessions=sessions, rounds=rounds)
        assert count == 1
        assert not found("threads", asked=study(device="cuda"), sessions=sessions, rounds=rounds)
        assert not found("threads", asked=study(device="cpu"), sessions=sessions[1:], rounds=rounds)


def test_a_machine_that_was_busy_when_a_session_began_is_a_doubt():
    """So is one whose system hides how long a run waited for a CPU."""
    hidden = a_round(Disturbance(seconds=0.5), session="0")
    [(share, most, sentence, _)] = found("busy", sessions=[session(id="0", busy=0.25)], rounds=[hidden])
    assert (share, most) == (0.25, 0.1) and "25 % of the machine's CPU time at the start of 1 of 1 session" in sentence
    for busy in (0.1, None):
        assert not found("busy", sessions=[session(id="0", busy=busy)], rounds=[hidden])


def test_a_study_that_two_commits_measured_says_so():
    other = session(id="second", environment=environment(commit="77aa"))
    cells = [measurement("trio", 0.11), measurement("trio", 0.22).model_copy(update={"session": "second"})]
    [(count, most, sentence, _)] = found("commits", cells, sessions=[session(), other])
    assert (count, most) == (2, 1) and "(0f3c2a91d7, 77aa)" in sentence
    assert not found("commits", cells[:1], sessions=[session(), other])  # the other session measured nothing
    assert not found("commits", cells, sessions=[session(), session(id="second")])


def test_transparent_pictures_of_the_session_with_most_of_them_are_counted():
    """Each session has its own digests: of a picture, or of all pictures of a file of questions."""
    digests = [FileDigest(bytes=9, sha256="a", transparent=count) for count in (None, 1, 3)]
    sessions = [session(id="0", inputs={"image": digests[0]})]
    assert not found("transparent", sessions=sessions)
    sessions.append(session(id="1", inputs={"image": digests[1], "model/config.json": digests[0]}))
    [(count, most, sentence, _)] = found("transparent", sessions=sessions)
    assert (count, most) == (1, 0) and sentence.startswith("1 picture has transparent parts. The model sees them on w")
    sessions.append(session(id="2", inputs={"questions/pictures": digests[2], "image": digests[1]}))
    [(count, _, sentence, next_step)] = found("transparent", sessions=sessions)
    assert count == 4 and sentence.startswith("4 pictures have") and "save the pictures without" in next_step
