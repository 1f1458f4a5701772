import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import torch

from trio_core.errors import RetentionError
from trio_core.methods.grid import Grid
from trio_profile.analysis.sweep import summarise
from trio_profile.errors import StoreError
from trio_profile.profilers import latency
from trio_profile.records.schema import Header
from trio_profile.records.store import Store, to_toml
from trio_profile.studies import sweep


def test_a_sweep_measures_every_cell_exactly(tiny_study, tmp_path):
    seen: list[tuple[int, int, str]] = []
    contents = sweep.run(tiny_study, tmp_path, watch=lambda *event: seen.append(event))
    assert [m.cell.retention for m in contents.measurements] == [0.4, 0.8]
    assert seen[0] == (0, 1, "loading the model")
    assert [event[2] for event in seen[1:]] == ["dense", "trio at 0.4", "trio at 0.8", "done"]
    for measurement in contents.measurements:
        assert measurement.status == "done"
        assert measurement.kv_bytes == measurement.kv_bytes_predicted
        assert measurement.retention.realised == measurement.retention.layer_average
        assert len(measurement.pairs) >= 6
        assert measurement.gamma_counted > 0
    assert Store(tmp_path).read().measurements == contents.measurements


def test_finished_cells_are_not_run_again(tiny_study, tmp_path, monkeypatch):
    first = sweep.run(tiny_study, tmp_path)
    size = (tmp_path / "measurements.jsonl").stat().st_size

    def never(*_):
        raise AssertionError("the model was loaded for nothing")

    monkeypatch.setattr(sweep, "build", never)
    assert sweep.run(tiny_study, tmp_path).measurements == first.measurements
    assert (tmp_path / "measurements.jsonl").stat().st_size == size


def test_a_sweep_goes_on_where_it_stopped(tiny_study, tmp_path, monkeypatch):
    measure, calls = sweep.measure_block, []

    def interrupted(workload, block, study, clock, **how):
        calls.extend(planned.cell.retention for planned in block)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(workload, block, study, clock, **how)

    monkeypatch.setattr(sweep, "measure_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(tiny_study, tmp_path)
    assert len(Store(tmp_path).read().measurements) == 1
    contents = sweep.run(tiny_study, tmp_path)
    assert calls == [0.4, 0.8, 0.8]
    assert [m.cell.retention for m in contents.measurements] == [0.4, 0.8]


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError("not enough memory: you tried")]
)
def test_a_cell_without_memory_is_recorded_and_the_sweep_goes_on(tiny_study, tmp_path, monkeypatch, error):
    study = tiny_study.model_copy(update={"methods": ("grid",)})
    select = Grid.select

    def breaks(self, view):
        if self.retention == 0.4:
            raise error
        return select(self, view)

    monkeypatch.setattr(Grid, "select", breaks)
    contents = sweep.run(study, tmp_path)
    assert [m.status for m in contents.measurements] == ["failed", "done"]
    assert contents.measurements[0].reason.startswith("out of memory")
    document = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    assert document.cells[0].status == "failed"
    monkeypatch.setattr(Grid, "select", select)
    assert [m.status for m in sweep.run(study, tmp_path).measurements] == ["done", "done"]


def test_one_of_several_without_memory_while_it_is_timed(tiny_study, tmp_path, monkeypatch):
    """Counting went well; generating does not: the cells are tried one by one, and one of them fails."""
    study = tiny_study.model_copy(update={"methods": ("grid", "random"), "retentions": (0.4,)})
    run, pruned = latency.run, []

    @contextmanager
    def prune(model, method):
        pruned.append(method.name)
        with real_prune(model, method) as trace:
            yield trace
        pruned.pop()

    def breaks(workload, clock):
        if pruned and pruned[-1] == "grid":
            pruned.clear()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run(workload, clock)

    real_prune = latency.prune
    monkeypatch.setattr(latency, "prune", prune)
    monkeypatch.setattr(latency, "run", breaks)
    contents = sweep.run(study, tmp_path)
    found = {m.cell.method: m.status for m in contents.measurements}
    assert found == {"grid": "failed", "random": "done"}


def test_no_memory_after_the_times_is_the_cell_s_failure_too(tiny_study, tmp_path, monkeypatch):
    """Energy is measured last."""
    study = tiny_study.model_copy(update={"methods": ("grid",), "retentions": (0.4,)})
    measure = sweep.power.measure

    def breaks(workload, method):
        if method is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return measure(workload, method)

    monkeypatch.setattr(sweep.power, "measure", breaks)
    [found] = sweep.run(study, tmp_path).measurements
    assert found.status == "failed" and str(found.reason).startswith("out of memory")


def test_any_other_error_is_not_hidden(tiny_study, tmp_path, monkeypatch):
    def breaks(self, view):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Grid, "select", breaks)
    with pytest.raises(RuntimeError, match="a bug"):
        sweep.run(tiny_study.model_copy(update={"methods": ("grid",)}), tmp_path)


def test_an_unreachable_retention_is_refused_before_anything_is_written(tiny_study, tmp_path):
    with pytest.raises(RetentionError):
        sweep.run(tiny_study.model_copy(update={"retentions": (0.5, 0.1)}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_study_in_the_way_is_refused_before_the_model_is_loaded(tiny_study, tmp_path, monkeypatch):
    sweep.run(tiny_study, tmp_path)
    monkeypatch.setattr(sweep, "build", lambda _: pytest.fail("the model was loaded for nothing"))
    with pytest.raises(StoreError, match="another study: seed"):
        sweep.run(tiny_study.model_copy(update={"seed": 7}), tmp_path)


def test_a_file_of_questions_that_has_changed_is_refused(tiny_study, photograph, tmp_path):
    def write(count):
        lines = [{"image": str(photograph), "question": f"What is this, {n}?", "answer": "a cat"} for n in range(count)]
        (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))

    study = tiny_study.model_copy(update={"questions": str(tmp_path / "questions.jsonl"), "retentions": (0.4,)})
    write(10)
    contents = sweep.run(study, tmp_path / "out")
    assert contents.dense.questions and len(contents.dense.correct) == 10
    write(20)
    more = study.model_copy(update={"retentions": (0.4, 0.8)})
    (tmp_path / "out" / "measurements.jsonl").write_text(
        "".join(
            f"{line}\n"
            for line in [
                Header(study=more, environment=contents.environment).model_dump_json(exclude_none=True),
                contents.dense.model_dump_json(exclude_none=True),
            ]
        )
    )
    with pytest.raises(
        StoreError, match=r"was asked other questions than .*questions\.jsonl holds now; choose another"
    ):
        sweep.run(more, tmp_path / "out")
    write(10)
    assert [m.status for m in sweep.run(more, tmp_path / "out").measurements] == ["done", "done"]


def test_kill_9_loses_at_most_the_cell_in_flight(tiny_study, tmp_path):
    study = tiny_study.model_copy(
        update={"retentions": (0.4, 0.5, 0.6, 0.7, 0.8), "cell_seconds": 0.5, "precision": 1e-6}
    )
    (tmp_path / "study.toml").write_text(to_toml(study))
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "trio_profile.cli",
        "sweep",
        "--study",
        str(tmp_path / "study.toml"),
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    store = Store(out)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if store.exists() and len(store.read().measurements) >= 2:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = store.read().measurements
    assert 2 <= len(kept) < 5
    contents = sweep.run(study, out)
    assert contents.measurements[: len(kept)] == kept
    assert len(contents.measurements) == 5
