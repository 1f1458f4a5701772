from tests.profile.examples import environment, in_processes, measurement, rounds_of, session, study
from trio_profile.analysis import session_doubts


def test_a_study_of_one_process_says_so_and_prints_the_command():
    command = "/usr/bin/trio-profile sweep --prompt 'What is it?' --processes=1 --out runs/a --batch 2"
    (doubt,) = session_doubts.processes([measurement()], [session(command=command)])
    assert doubt.cell is None and "every cell was measured in one process" in doubt.sentence
    assert doubt.next_step.endswith("trio-profile sweep --prompt 'What is it?' --batch 2 --processes 8 --out ANOTHER")


def test_a_command_that_is_not_ours_is_left_out():
    for command in ("", "python notebook.py", "'open quote"):
        (doubt,) = session_doubts.processes([measurement()], [session(command=command)])
        assert doubt.next_step.endswith("in several processes: --processes 8 --out ANOTHER")


def test_several_processes_are_no_doubt_and_an_unfinished_study_names_the_number_of_cells():
    assert list(session_doubts.processes([in_processes(measurement(), 2)], [])) == []
    assert list(session_doubts.processes([], [])) == []
    (doubt,) = session_doubts.processes([in_processes(measurement(), 2), measurement()], [])
    assert doubt.sentence.startswith("1 of 2 cells were measured in one process")


def test_a_cell_that_failed_in_a_later_process_is_named_with_the_reason():
    whole, cut = (in_processes(measurement("trio", at), count) for at, count in ((0.11, 4), (0.22, 2)))
    cut = cut.model_copy(update={"reason": "out of memory"})
    (doubt,) = session_doubts.failures([whole, cut], 4)
    assert (doubt.cell, doubt.found, doubt.threshold) == (cut.cell, 2, 4) and "out of memory" in doubt.sentence


def test_few_rounds_name_the_time_that_is_enough():
    """Three rounds took 4 s, so six take 8 s, and a fifth is added."""
    few = measurement(pairs=3)
    rounds = [one.model_copy(update={"seconds": 1.0}) for one in rounds_of(few)]
    assert len(rounds) == 4
    (doubt,) = session_doubts.rounds(study(seconds=3), [few, measurement()], rounds)
    assert (doubt.kind, doubt.cell, doubt.found, doubt.threshold) == ("rounds", None, 3, 6)
    assert "--seconds 10:" in doubt.next_step  # 9.6
    (doubt,) = session_doubts.rounds(study(seconds=60), [few], rounds)
    assert "--seconds 61:" in doubt.next_step  # more than it had
    assert not list(session_doubts.rounds(study(), [measurement(pairs=6)], []))
    assert not list(session_doubts.rounds(study(), [], []))


def test_threads_that_spin_are_a_doubt_on_a_cpu_only():
    spinning, sleeping = (session(environment=environment(wait_policy=policy)) for policy in ("active", "passive"))
    (doubt,) = session_doubts.threads(study(device="cpu"), [spinning, sleeping])
    assert doubt.kind == "threads" and "in 1 of 2 sessions" in doubt.sentence
    assert list(session_doubts.threads(study(device="cuda"), [spinning])) == []
    assert list(session_doubts.threads(study(device="cpu"), [sleeping])) == []


def test_threads_of_an_old_session_are_a_doubt_because_nobody_knows_whether_they_slept():
    old, new = (session(environment=environment(wait_policy=policy)) for policy in ("", "passive"))
    (doubt,) = session_doubts.threads(study(device="cpu"), [old, new])
    assert doubt.sentence == "in 1 of 2 sessions it is not known whether waiting threads slept"
    assert list(session_doubts.threads(study(device="cuda"), [old])) == []


def test_the_main_module_of_another_program_is_not_printed_as_ours():
    for command, ours in (("/lib/trio_profile/__main__.py sweep", True), ("/lib/other/__main__.py sweep", False)):
        (doubt,) = session_doubts.processes([measurement()], [session(command=command)])
        assert ("trio-profile sweep" in doubt.next_step) == ours


def test_a_busy_machine_at_the_start_is_a_doubt():
    (doubt,) = session_doubts.start([session(busy=0.55), session(busy=0.02), session(busy=None)])
    assert (doubt.kind, doubt.found) == ("busy", 0.55)
    assert "55 % of the machine's CPU time at the start of 1 of 3 sessions" in doubt.sentence
    assert list(session_doubts.start([session(busy=0.02)])) == []


def test_a_study_that_two_commits_measured_says_so():
    cells = [measurement("trio", 0.11), measurement("trio", 0.22).model_copy(update={"session": "second"})]
    other = session(id="second", environment=environment(commit="77aa"))
    [doubt] = session_doubts.commits([session(), other], cells)
    assert doubt.sentence.startswith("the study was measured by 2 versions of the code (0f3c2a91d7, 77aa)")
    assert (doubt.cell, doubt.kind, doubt.found, doubt.threshold) == (None, "commits", 2, 1)


def test_a_session_that_measured_nothing_raises_no_doubt():
    other = session(id="second", environment=environment(commit="77aa"))
    assert list(session_doubts.commits([session(), other], [measurement()])) == []
    assert list(session_doubts.commits([session(), session(id="second")], [measurement()])) == []
