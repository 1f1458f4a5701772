"""A study on this machine: what is measured, what goes on, and what is refused before anything is measured."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copy, copytree

import psutil
import pytest
import torch

from tests.core.tiny import fast_first
from tests.profile import examples
from trio_profile.engine import measuring
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.kinds.grid import run as local
from trio_profile.profilers import rounds
from trio_profile.progress import Step
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Dense, Study
from trio_profile.records.store import Store, to_toml
from trio_profile.report import html
from trio_profile.study import running

pytestmark = pytest.mark.usefixtures("without_fvcore")


def never(*_: object, **__: object) -> None:
    """Load nothing."""
    raise AssertionError("a model was loaded for nothing")


# --- when a study is finished ----------------------------------------------------------------------------------------


def test_cells_are_counted_again_unless_they_are_counted_or_refused():
    study = examples.study(retentions=(0.11, 0.22, 0.33, 0.44))
    refused = examples.failed("trio", 0.22).model_copy(update={"status": "refused"})
    found = examples.store(study, examples.measurement("trio", 0.11), refused, examples.failed("trio", 0.33))
    names = {cell.retention: cell.id for cell in study.cells()}
    assert local.uncounted(study, found) == [names[0.33], names[0.44]]
    assert local.uncounted(study, examples.store(study)) == list(names.values())
    assert not local.is_counted(study, found)


def test_timing_ends_after_the_processes_that_are_asked_for():
    study = examples.study(retentions=(0.11,), processes=3)
    cell = examples.measurement("trio", 0.11, pairs=4)
    for processes, is_timed in ((2, False), (3, True), (4, True)):
        assert local.is_timed(study, examples.store(study, examples.in_processes(cell, processes))) == is_timed


def test_timing_ends_when_the_intervals_are_narrow_after_eight_processes_or_when_the_time_is_spent():
    study = examples.study(retentions=(0.11,), precision=0.05, seconds=1e6)
    cell = examples.measurement("trio", 0.11, pairs=6)
    seven, eight = (examples.store(study, examples.in_processes(cell, number)) for number in (7, 8))
    assert not local.is_timed(study, seven) and local.is_timed(study, eight)
    narrower = study.model_copy(update={"precision": 1e-6})
    assert not local.is_timed(narrower, eight)
    # 8 processes of 8 rounds have taken 64 seconds: a ninth begins if half of its 8 seconds are left.
    for seconds, is_timed in ((67.0, True), (69.0, False)):
        assert local.is_timed(narrower.model_copy(update={"seconds": seconds}), eight) == is_timed


def test_a_cell_that_failed_is_timed_again_unless_it_failed_in_this_run():
    study = examples.study(retentions=(0.11, 0.22), processes=1)
    cells = [examples.measurement("trio", retention, pairs=3) for retention in study.retentions]
    found = examples.store(study, *cells)
    assert local.is_timed(study, found)
    found.add(examples.failed("trio", 0.11))
    assert not local.is_timed(study, found)
    assert local.is_timed(study, found, {cells[0].cell.id})


# --- in this process -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tiny_study, without_fvcore, tmp_path_factory) -> tuple[Path, Contents, list[Step]]:
    """A finished sweep: its directory, what it returned, and its steps. Tests measure in a copy of the directory."""
    directory, steps, loads, resolve = tmp_path_factory.mktemp("measured"), list[Step](), [], measuring.resolve
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "resolve", lambda *args, **kwargs: loads.append(args) or resolve(*args, **kwargs))
        found = local.run(tiny_study, directory, steps.append)
    assert len(loads) == 1, "the model was loaded more than once"
    return directory, found, steps


@pytest.fixture
def measured_copy(measured, tmp_path) -> Path:
    """A copy of the finished sweep's directory."""
    return copytree(measured[0], tmp_path / "copy")


def test_a_study_of_one_process_counts_and_times_every_cell_in_this_one(measured):
    _, found, steps = measured
    assert {session.pid for session in found.sessions} == {os.getpid()}
    assert [cell.status for cell in found.measurements] == ["done", "done"]
    for cell in found.measurements:
        assert cell.kv_bytes == cell.kv_bytes_predicted and cell.pairs and cell.gamma_counted > 0
        assert cell.retention.realised == cell.retention.layer_average
    assert found.dense is not None and {one.phase for one in found.rounds} == {"warm-up", "prefill", "generation"}
    shares = [step.done / step.total for step in steps if step.total]
    assert shares == sorted(shares) and steps[-1].text == "all cells are measured"


def test_a_finished_study_goes_on_with_more_processes(tiny_study, measured, measured_copy, monkeypatch):
    _, first, _ = measured
    more = tiny_study.model_copy(update={"processes": len({one.session for one in first.rounds}) + 1})
    monkeypatch.setattr(local, "is_in_this_process", lambda _: True)
    monkeypatch.setattr(measuring, "count_share", never)
    found = local.run(more, measured_copy)
    assert found.rounds[: len(first.rounds)] == first.rounds
    assert all(len(cell.timings) == 2 and cell.timings[-1].pairs for cell in found.measurements)
    assert Store(measured_copy).read().study == more


def test_a_process_that_measures_nothing_ends_the_study(tiny_study, measured_copy, monkeypatch):
    monkeypatch.setattr(local, "is_in_this_process", lambda _: True)
    monkeypatch.setattr(measuring.Timer, "measure", lambda *_: iter(()))
    with pytest.raises(MeasurementError, match="measured nothing"):
        local.run(tiny_study.model_copy(update={"processes": 2}), measured_copy)


def test_a_sweep_goes_on_where_counting_stopped(tiny_study, tmp_path, monkeypatch):
    count, calls = measuring.count, list[float]()

    def interrupted(workload, planned, study):
        calls.append(planned.cell.retention)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return count(workload, planned, study)

    monkeypatch.setattr(measuring, "count", interrupted)
    with pytest.raises(KeyboardInterrupt):
        local.run(tiny_study, tmp_path)
    assert list(Store(tmp_path).read().cells) == [tiny_study.cells()[0].id]
    found = local.run(tiny_study, tmp_path)
    assert calls == [0.4, 0.8, 0.8]
    assert [cell.status for cell in found.measurements] == ["done", "done"]
    kinds = [json.loads(line)["record"] for line in (tmp_path / "measurements.jsonl").open()]
    assert (kinds.count("picture"), kinds.count("dense")) == (1, 1)


@pytest.mark.slow
def test_a_cell_that_fails_while_it_is_timed_keeps_its_counts(tiny_study, tmp_path, monkeypatch):
    run = rounds._run

    def breaks(workload, cell, method, phase, clock):
        if method is not None and method.retention == 0.4:
            raise rounds.CellFailed(cell) from torch.OutOfMemoryError("CUDA out of memory")
        return run(workload, cell, method, phase, clock)

    monkeypatch.setattr(rounds, "_run", breaks)
    first, second = local.run(tiny_study, tmp_path).measurements
    assert (first.status, second.status) == ("failed", "done")
    assert first.counted is not None and str(first.reason).startswith("out of memory")


def questions_about(photograph: Path, path: Path, count: int) -> None:
    """Write a file of questions about one picture."""
    copy(photograph, path.parent)
    lines = [{"image": photograph.name, "question": f"What is this, {n}?", "answer": "a cat"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("processes", fast_first((1, 2), 1))
def test_more_questions_are_asked_of_the_cells_that_may_be_chosen(
    tiny_study, photograph, tmp_path, monkeypatch, processes
):
    """So the loss is decided for these, without a question for the others. Each answer follows those before it."""
    file, out = tmp_path / "questions.jsonl", tmp_path / "out"
    questions_about(photograph, file, 45)
    asked = {"questions": str(file), "fidelity_inputs": 10, "processes": processes, "seconds": 1e5}
    study = tiny_study.model_copy(update={**asked, "methods": ("random",), "retentions": (0.4, 0.8)})
    chosen, other = (cell.id for cell in study.cells())
    may_be_chosen = iter([[chosen], [chosen, other], [chosen]])
    monkeypatch.setattr(local, "undecided", lambda _: next(may_be_chosen))
    monkeypatch.setattr(local, "is_timed", lambda *_: True)
    found = local.run(study, out)
    assert found.dense is not None and len(found.dense.correct) == len(found.dense.kinds) == 45
    for name in (chosen, other):
        fidelity = found.cells[name].fidelity
        assert fidelity is not None and fidelity.questions == 45 and len(fidelity.same) == 45 * fidelity.draws
    again = Store(out).read()
    assert (again.dense, again.cells, again.asking_seconds) == (found.dense, found.cells, found.asking_seconds)
    kinds = [json.loads(line) for line in (out / "measurements.jsonl").read_text().splitlines()]
    numbers = [(record["cell"], record["numbers"][0]) for record in kinds if record["record"] == "answers"]
    assert numbers == [("", 10), (chosen, 10), ("", 40), (chosen, 40), (other, 10)]


def test_no_more_is_asked_when_the_loss_is_decided_or_the_time_is_up():
    study = examples.study(retentions=(0.11,), model="MODEL")
    dense = Dense(**{**dict(examples.dense()), "correct": (True,) * 24})
    cell = examples.answering({}, [True] * 24)
    found = examples.store(study, cell, unpruned=dense)
    assert local.to_ask(study, found) == ([cell.cell.id], 96)
    found.asking_seconds, found.further_answers = local.whole_seconds(study), 10
    assert local.to_ask(study, found)[0] == []
    found.asking_seconds = found.further_answers = 0
    assert local.to_ask(study.model_copy(update={"verb": "ablate"}), found)[0] == []
    found.dense = Dense(**{**dict(dense), "correct": (False,) * 24})
    assert local.to_ask(study, found)[0] == [], "the dense model can lose none"


@pytest.mark.slow
def test_a_file_of_questions_that_has_changed_is_refused(tiny_study, photograph, tmp_path):
    file, out = tmp_path / "questions.jsonl", tmp_path / "out"
    study = tiny_study.model_copy(update={"questions": str(file), "retentions": (0.4,)})
    questions_about(photograph, file, 10)
    found = local.run(study, out)
    assert found.dense is not None and len(found.dense.correct) == 10
    assert {"questions", "questions/pictures", "image", "model/config.json"} <= set(found.sessions[0].inputs)
    questions_about(photograph, file, 20)
    with pytest.raises(StoreError, match=r"the questions .* have changed since .*out was measured \(questions\.jsonl"):
        local.run(study, out)
    questions_about(photograph, file, 10)
    assert local.run(study, out).measurements == found.measurements


def test_a_cell_that_was_counted_with_another_schedule_is_not_timed(tiny_study, measured, measured_copy):
    """As by an earlier version: its counts and these times would belong to two methods."""
    cell, file = measured[1].measurements[0], measured_copy / "measurements.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    left = [record for record in records if record.get("record") != "round"]
    for record in left:
        if record.get("record") == "measurement":
            record["budgets"][-1] += 1
    file.write_text("".join(json.dumps(record) + "\n" for record in left))
    there, here = (str((*cell.budgets[:-1], cell.budgets[-1] + more)) for more in (1, 0))
    with pytest.raises(StoreError) as refused:
        local.run(tiny_study, measured_copy)
    assert there in str(refused.value) and here in str(refused.value) and "choose another --out" in str(refused.value)


def test_a_private_picture_is_in_no_file_and_in_no_document(tiny_study, tmp_path):
    asked = {"methods": ("trio", "tome"), "retentions": (0.4,)}
    found = running.run(tiny_study.model_copy(update={**asked, "picture": False}), tmp_path)
    assert found.document.tokens.picture.image == ""
    trio, merging = found.document.tokens.cells
    for stage in (*trio.kept.stages, *merging.kept.stages):
        assert stage.kept and (stage.scores, stage.low, stage.high, stage.merged_into) == (b"", None, None, b"")
    assert any(stage.merges for stage in merging.kept.stages)
    texts = [path.read_text() for path in tmp_path.iterdir() if path.suffix in (".jsonl", ".toml", ".html")]
    texts.append(found.document.model_dump_json())
    assert len(texts) == 4
    for text in texts:
        assert "data:image/" not in text.replace(html.PLOTLY.read_text(), "")
    with pytest.raises(StoreError, match=r"picture \(False there, True here\)"):
        running.run(tiny_study.model_copy(update=asked), tmp_path)


# --- in forked processes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_processes(tiny_study: Study, tmp_path_factory) -> Contents:
    """A small study whose cells two forked processes time. More processes count than there are questions."""
    fields = {"processes": 2, "fidelity_inputs": 1, "methods": ("grid",), "retentions": (0.4,)}
    study, out = tiny_study.model_copy(update=fields), tmp_path_factory.mktemp("two")
    found = local.run(study, out / "out")
    assert local.run(study, out / "out").rounds == found.rounds, "a second call measured again"
    return found


def test_one_session_counts_and_each_other_one_times_each_cell(two_processes):
    """A process that has counted and asked questions is slower than a fresh one, so it times nothing."""
    counting, *timing = two_processes.sessions
    assert len({session.pid for session in two_processes.sessions} | {os.getpid()}) == 4
    assert {session.command for session in two_processes.sessions} == {command_line()}
    assert {session.environment.cpu_threads for session in two_processes.sessions} == {torch.get_num_threads()}
    for cell in two_processes.measurements:
        assert cell.status == "done" and cell.session == counting.id and cell.fidelity is not None
        assert [one.session for one in cell.timings] == [session.id for session in timing]


@pytest.mark.slow
def test_a_killed_study_leaves_no_process_and_goes_on(tiny_study, tmp_path):
    """It is so long that it is never finished before it is killed."""
    study = tiny_study.model_copy(update={"processes": 2, "seconds": 3600.0})
    (tmp_path / "study.toml").write_text(to_toml(study))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "trio_profile", "sweep", "--study", str(tmp_path / "study.toml"), "--out", out]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    store, deadline = Store(out), time.monotonic() + 120
    while time.monotonic() < deadline and not (store.exists() and store.read().measurements):
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert children and not psutil.wait_procs(children, timeout=60)[1]
    kept = store.read()
    found = local.run(study.model_copy(update={"seconds": 0.1}), out)
    assert [len(cell.timings) for cell in found.measurements] == [2, 2]
    assert found.rounds[: len(kept.rounds)] == kept.rounds
