"""Cell by cell: what goes on, what is recorded, and what is refused before anything is measured."""

import json
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, copytree

import pytest
import torch
from plotly.offline import get_plotlyjs

from trio_core.methods.grid import Grid
from trio_profile.analysis.sweep import summarise
from trio_profile.errors import StoreError
from trio_profile.profilers import latency
from trio_profile.progress import Step
from trio_profile.records.schema import Header
from trio_profile.records.store import Contents, Store
from trio_profile.studies import measuring, plan, running, sessions, sweep

pytestmark = pytest.mark.usefixtures("without_fvcore")


@pytest.fixture(scope="module")
def measured(tiny_study, without_fvcore, tmp_path_factory) -> tuple[Path, Contents, list[Step]]:
    """A finished sweep: its directory, what it returned, and its steps. Tests measure in a copy of the directory."""
    directory, steps = tmp_path_factory.mktemp("measured"), list[Step]()
    return directory, sweep.run(tiny_study, directory, steps.append), steps


@pytest.fixture
def measured_copy(measured, tmp_path) -> Path:
    """A copy of the finished sweep's directory."""
    return copytree(measured[0], tmp_path / "copy")


def test_every_step_says_what_runs_and_how_far_it_is(measured):
    _, _, steps = measured
    said = [step.text for step in steps]
    assert said[0].startswith("loading ")
    for text in (
        "warming up",
        "dense: counting and timing",
        "cell 1 of 2, trio at 0.4: counting",
        "trio at 0.8: pair 6",
    ):
        assert text in said, text
    shares = [step.done / step.total for step in steps if step.total]
    assert shares == sorted(shares) and shares[-1] == 1


def test_the_time_of_loading_is_counted_once(tiny_study, tmp_path, monkeypatch):
    """Loading uses CPU time as well, and the CPU time of the imports is read before."""
    cpu_seconds = [1.0]
    monkeypatch.setattr(measuring, "import_seconds", lambda: cpu_seconds[0])
    load = measuring.resolve

    def resolve(*arguments, **options):
        cpu_seconds[0] = 1000.0
        return load(*arguments, **options)

    monkeypatch.setattr(measuring, "resolve", resolve)
    found = measuring.measure(tiny_study.model_copy(update={"retentions": (0.4,)}), tmp_path)
    assert 1 < found.sessions[0].load_seconds < 500


def test_later_sessions_divide_the_time_among_the_processes_that_the_first_one_chose(tiny_study, tmp_path, monkeypatch):
    study = tiny_study.model_copy(update={"retentions": (0.4,), "fidelity_inputs": 0})
    monkeypatch.setattr(sessions, "PROCESSES", 2)
    monkeypatch.setattr(sessions, "CHEAP_SECONDS", 1e9)
    measuring.measure(study, tmp_path)
    monkeypatch.setattr(sessions, "CHEAP_SECONDS", 0.0)
    found = measuring.measure(study, tmp_path)
    assert [session.processes for session in found.sessions] == [2, 2]


def test_finished_cells_are_not_run_again(tiny_study, measured, measured_copy, monkeypatch):
    _, first, _ = measured
    size = (measured_copy / "measurements.jsonl").stat().st_size

    def never(*_, **__):
        raise AssertionError("the model was loaded for nothing")

    monkeypatch.setattr(plan, "build", never)
    assert sweep.run(tiny_study, measured_copy).measurements == first.measurements
    assert (measured_copy / "measurements.jsonl").stat().st_size == size


def test_a_sweep_goes_on_where_it_stopped(tiny_study, tmp_path, monkeypatch):
    measure, calls = measuring.measure_block, []

    def interrupted(desk, block, *more):
        calls.extend(planned.cell.retention for planned in block)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(desk, block, *more)

    monkeypatch.setattr(measuring, "measure_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(tiny_study, tmp_path)
    assert len(Store(tmp_path).read().measurements) == 1
    contents = sweep.run(tiny_study, tmp_path)
    assert calls == [0.4, 0.8, 0.8]
    assert [m.cell.retention for m in contents.measurements] == [0.4, 0.8]
    lines = (tmp_path / "measurements.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in lines].count("picture") == 1


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("not enough memory: you tried")])
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


def test_of_cells_timed_in_turn_only_the_one_without_memory_fails(tiny_study, tmp_path, monkeypatch):
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


def test_a_cell_that_runs_out_of_memory_after_its_times_fails(tiny_study, tmp_path, monkeypatch):
    """Energy is measured last."""
    study = tiny_study.model_copy(update={"methods": ("grid",), "retentions": (0.4,)})
    measure = measuring.power.measure

    def breaks(workload, method):
        if method is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return measure(workload, method)

    monkeypatch.setattr(measuring.power, "measure", breaks)
    [found] = sweep.run(study, tmp_path).measurements
    assert found.status == "failed" and str(found.reason).startswith("out of memory")


def test_any_other_error_is_not_hidden(tiny_study, tmp_path, monkeypatch):
    def breaks(self, view):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Grid, "select", breaks)
    with pytest.raises(RuntimeError, match="a bug"):
        sweep.run(tiny_study.model_copy(update={"methods": ("grid",)}), tmp_path)


def test_another_study_in_the_way_is_refused_before_the_model_is_loaded(tiny_study, measured_copy, monkeypatch):
    monkeypatch.setattr(plan, "build", lambda *_, **__: pytest.fail("the model was loaded for nothing"))
    with pytest.raises(StoreError, match="another study: seed"):
        sweep.run(tiny_study.model_copy(update={"seed": 7}), measured_copy)


def questions_about(photograph, path, count):
    """Write a file of questions about one picture."""
    copy(photograph, path.parent)
    lines = [{"image": photograph.name, "question": f"What is this, {n}?", "answer": "a cat"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, lines)))


def test_a_file_of_questions_that_has_changed_is_refused(tiny_study, photograph, tmp_path):
    file, out = tmp_path / "questions.jsonl", tmp_path / "out"
    study = tiny_study.model_copy(update={"questions": str(file), "retentions": (0.4,), "processes": 1})
    questions_about(photograph, file, 10)
    contents = sweep.run(study, out)
    assert len(contents.dense.correct) == 10
    assert {"questions", "questions/pictures", "image", "model/config.json"} <= set(contents.sessions[0].inputs)
    questions_about(photograph, file, 20)
    with pytest.raises(StoreError, match=r"the questions .* have changed since .*out was measured \(questions\.jsonl"):
        sweep.run(study, out)
    questions_about(photograph, file, 10)
    assert sweep.run(study, out).measurements == contents.measurements


def test_a_store_of_version_1_knows_its_questions_by_their_hash(tiny_study, photograph, tmp_path):
    file, out = tmp_path / "questions.jsonl", tmp_path / "out"
    study = tiny_study.model_copy(update={"questions": str(file), "retentions": (0.4,), "processes": 1})
    questions_about(photograph, file, 10)
    contents = sweep.run(study, tmp_path / "new")
    dense = contents.dense.model_copy(update={"questions": "0123456789abcdef", "session": ""})
    out.mkdir()
    records = [Header(version=1, study=study, environment=contents.environment), dense]
    (out / "measurements.jsonl").write_text(
        "".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in records)
    )
    with pytest.raises(StoreError, match=r"the study holds answers to other questions than .*questions\.jsonl has now"):
        sweep.run(study, out)


def test_an_exchanged_checkpoint_is_refused_before_it_is_loaded(tiny_study, checkpoint, tmp_path, monkeypatch):
    copytree(checkpoint, tmp_path / "model")
    study = tiny_study.model_copy(update={"model": str(tmp_path / "model"), "retentions": (0.4,), "processes": 1})
    sweep.run(study, tmp_path / "out")
    with (tmp_path / "model" / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"\x01")
    monkeypatch.setattr(plan, "build", lambda *_, **__: pytest.fail("the model was loaded for nothing"))
    with pytest.raises(StoreError, match=r"model has changed since .*out was measured \(model\.safetensors: other"):
        sweep.run(study, tmp_path / "out")


# --- kept tokens -----------------------------------------------------------------------------------------------------


def test_a_study_keeps_its_picture_once_and_the_tokens_of_each_cell(measured):
    directory, contents, _ = measured
    assert contents.picture.image.startswith("data:image/") and contents.picture.session == contents.sessions[0].id
    lines = (directory / "measurements.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in lines].count("picture") == 1
    for cell in contents.measurements:
        assert tuple(stage.layer for stage in cell.kept.stages) == cell.layers
        assert tuple(int(stage.mask(36).sum()) for stage in cell.kept.stages) == cell.budgets
        assert cell.kept.stages[-1].scores  # a stage that drops nothing has none


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
        assert "data:image/" not in text.replace(get_plotlyjs(), "")
    assert "others merged into them, and into which ones is not recorded" in (tmp_path / "report.html").read_text()
    with pytest.raises(StoreError, match=r"picture \(False there, True here\)"):
        running.run(tiny_study.model_copy(update=asked), tmp_path)


def test_an_old_study_that_goes_on_gets_its_picture_with_its_next_new_cell(tiny_study, measured, tmp_path):
    directory, contents, _ = measured
    out = tmp_path / "old"
    out.mkdir()
    lines = [json.loads(line) for line in (directory / "measurements.jsonl").read_text().splitlines()]
    old = [line for line in lines if line["record"] != "picture" and line.get("cell", {}).get("retention") != 0.8]
    for line in old:
        line.pop("kept", None)
    (out / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    assert Store(out).read().picture is None
    found = sweep.run(tiny_study, out)
    assert found.picture.image == contents.picture.image
    assert [cell.kept is None for cell in found.measurements] == [True, False]
