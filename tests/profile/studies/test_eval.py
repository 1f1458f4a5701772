import json
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import trio_profile
from tests.profile import lmms_stand_in
from tests.profile.command import complaint, document
from trio_core.methods import find
from trio_core.pruning import prune
from trio_profile.analysis.eval import AnsweredQuestion
from trio_profile.cli import run
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs.models import load
from trio_profile.inputs.workload import ask
from trio_profile.records.record import VERSION
from trio_profile.records.schema import Study
from trio_profile.stats.intervals import difference_interval
from trio_profile.studies.plan import resolve

QUESTIONS = ("Which colour?", "What is drawn, and in which colour is it?", "Round?")


@pytest.fixture(params=["stand-in", "lmms-eval"])
def evaluation(request, monkeypatch):
    """The module over lmms-eval itself where it is installed, and over its stand-in; neither may reach a hub."""
    if request.param == "lmms-eval":
        pytest.importorskip("lmms_eval.evaluator")
    else:
        for name, module in lmms_stand_in.install().items():
            monkeypatch.setitem(sys.modules, name, module)

    def no_network(*_):
        raise OSError("a test reached for the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    module = import_module("trio_profile.studies.eval")
    if request.param == "stand-in":
        monkeypatch.setattr(module, "version", lambda _: "0.7.3")
    yield module
    del sys.modules["trio_profile.studies.eval"], trio_profile.studies.eval


def own_tasks(
    directory: Path,
    answers=("red", "green", "blue", "red", "green", "blue"),
    *,
    name: str = "colours",
    options: str = "{max_new_tokens: 4}",
    visual: str = "doc['image'].convert('RGB')",
    output_type: str = "generate_until",
    data: str = "data",
) -> Path:
    """A directory with one task: a handful of drawn pictures, a question of each, exact match."""
    pictures = directory / "data" / "test"
    pictures.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, answer in enumerate(answers):
        picture = Image.new("RGB", (64, 64), "white")
        shape = ImageDraw.Draw(picture)
        draw = shape.ellipse if number < 3 else shape.rectangle
        draw((8 + 4 * number, 16, 48, 56), fill=("red", "green", "blue")[number % 3])
        picture.save(pictures / f"{number}.png")
        row = {"file_name": f"{number}.png", "question": QUESTIONS[number % 3], "answer": answer, "number": number}
        lines.append(json.dumps(row) + "\n")
    (pictures / "metadata.jsonl").write_text("".join(lines))
    (directory / "utils.py").write_text(f"def pictures(doc):\n    return [{visual}]\n")
    (directory / f"{name}.yaml").write_text(f"""\
task: {name}
dataset_path: imagefolder
dataset_kwargs: {{data_dir: {directory / data}, cache_dir: {directory / "cache"}}}
test_split: test
output_type: {output_type}
doc_to_visual: !function utils.pictures
doc_to_text: question
doc_to_target: answer
generation_kwargs: {options}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true}}
""")
    return directory


@pytest.fixture
def study(checkpoint):
    return Study(model=str(checkpoint), methods=("trio",), retentions=(0.4,))


@pytest.fixture
def arguments(checkpoint, tmp_path):
    tasks = own_tasks(tmp_path / "tasks")
    return [
        *("eval", "--model", str(checkpoint), "--method", "trio", "--retention", "0.4", "--device", "cpu"),
        *("--tasks", "colours", "--task-path", str(tasks)),
    ]


def asked(evaluation, study, tasks: Path, **options):
    """The document of an evaluation, and its answers as they came."""
    fields = {"verb": "eval", "tasks": ("colours",), "task_path": str(tasks), **options}
    found = evaluation.run(study.model_copy(update=fields), tasks)
    lines = (tasks / "answers.jsonl").read_text().splitlines()
    return found, [AnsweredQuestion.model_validate_json(line) for line in lines]


def test_questions_that_show_the_same_pixels_have_one_picture(evaluation, study, tmp_path):
    _, apart = asked(evaluation, study, own_tasks(tmp_path / "one"))
    assert [answer.picture for answer in apart] == list(range(6))
    corner = "doc['image'].convert('RGB').crop((0, 0, 4, 4)).resize((64, 64))"
    _, same = asked(evaluation, study, own_tasks(tmp_path / "two", visual=corner))
    assert {answer.picture for answer in same} == {0}


def test_scores_are_of_the_answers_that_were_timed(evaluation, study, tmp_path):
    _, first = asked(evaluation, study, own_tasks(tmp_path / "one"))
    told = [answer.dense.text for answer in first if answer.dense]
    found, answers = asked(evaluation, study, own_tasks(tmp_path / "two", told))
    assert [(a.dense, a.pruned) for a in answers] != [(a.dense, a.pruned) for a in first]  # times differ
    assert [(a.dense.text, a.pruned.text) for a in answers] == [(a.dense.text, a.pruned.text) for a in first]
    (task,) = found.tasks
    (score,) = task.scores
    same = [float(answer.pruned.text.lower() == answer.dense.text.lower()) for answer in answers]
    assert (score.metric, score.filter, score.higher_is_better) == ("exact_match", "none", True)
    assert (score.dense, score.pruned) == (1.0, pytest.approx(sum(same) / 6))
    assert score.difference == pytest.approx(score.pruned - 1)
    assert score.ci95 == pytest.approx(difference_interval([one - 1 for one in same]))
    assert task.questions == 6 == task.prefill_speedup.samples
    assert task.prefill_speedup.value == pytest.approx(
        np.median([a.dense.prefill_ms / a.pruned.prefill_ms for a in answers])
    )
    for answer in answers:
        for said in (answer.dense, answer.pruned):
            assert 0 < said.prefill_ms <= said.ttft_ms < said.total_ms
            assert 1 <= said.tokens <= 4
        assert answer.retention == pytest.approx(0.4, abs=0.02)
    assert found.lmms_eval.startswith("0.")


def test_answers_equal_those_of_the_model_on_one_question(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path)
    _, answers = asked(evaluation, study, tasks)
    loaded = load(study)
    method = find("trio")(retention=0.4)
    for answer in answers:
        picture = Image.open(tasks / "data" / "test" / f"{answer.document}.png")
        inputs = ask(loaded.processor, [picture], QUESTIONS[answer.document % 3])
        new = inputs["input_ids"].shape[1]
        options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
        dense = loaded.model.generate(**inputs, **options)[0, new:]
        with prune(loaded.model, method):
            pruned = loaded.model.generate(**inputs, **options)[0, new:]
        for said, tokens in ((answer.dense, dense), (answer.pruned, pruned)):
            assert said.text == loaded.processor.tokenizer.decode(tokens, skip_special_tokens=True).strip()
            assert said.tokens == len(tokens)


def test_dense_and_pruned_take_turns_and_scoring_runs_the_model_once(evaluation, study, tmp_path, monkeypatch):
    sides = []
    timed = evaluation.timed

    def counting(model, *rest):
        sides.append("pruned" if any(layer._forward_pre_hooks for layer in layers(model)) else "dense")
        return timed(model, *rest)

    monkeypatch.setattr(evaluation, "timed", counting)
    _, answers = asked(evaluation, study, own_tasks(tmp_path))
    assert len(sides) == 2 + 2 * 6  # warm-up, and each question twice
    pairs = [tuple(sides[i : i + 2]) for i in range(2, 14, 2)]
    assert set(pairs) == {("dense", "pruned"), ("pruned", "dense")}
    assert [pair[0] == "dense" for pair in pairs] == [answer.dense_first for answer in answers]


def layers(model):
    return model.model.language_model.layers


def test_without_dense_there_is_nothing_to_compare(evaluation, study, tmp_path):
    found, answers = asked(evaluation, study, own_tasks(tmp_path), dense=False, limit=2)
    (task,) = found.tasks
    assert len(answers) == task.questions == found.limit == 2
    assert all(answer.dense is None and answer.dense_first is None for answer in answers)
    assert (task.scores[0].dense, task.scores[0].difference, task.scores[0].ci95) == (None, None, None)
    assert (task.same_answer, task.prefill_speedup, task.dense_prefill_ms) == (None, None, None)
    assert task.prefill_ms is not None and task.retention == pytest.approx(0.4, abs=0.02)


def test_a_question_without_a_picture_is_answered_once_and_not_timed(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path, visual="*([doc['image'].convert('RGB')] if doc['number'] else [])")
    found, answers = asked(evaluation, study, tasks)
    assert answers[0].dense == answers[0].pruned and answers[0].retention is None
    assert found.tasks[0].questions == 6 and found.tasks[0].prefill_ms.samples == 5


def test_an_answer_ends_where_the_task_says(evaluation, study, tmp_path):
    _, whole = asked(evaluation, study, own_tasks(tmp_path / "whole"))
    end = next(a.pruned.text[1] for a in whole if len(a.pruned.text) > 1)
    options = f"{{max_new_tokens: 4, until: [{json.dumps(end)}, '']}}"
    _, cut = asked(evaluation, study, own_tasks(tmp_path / "cut", options=options))
    assert [a.pruned.text for a in cut] == [a.pruned.text.partition(end)[0].strip() for a in whole]


def test_pictures_come_first_whatever_the_question_holds(evaluation, study, checkpoint):
    loaded = load(study)
    model = evaluation.PairedModel(resolve(study))
    picture = Image.new("RGB", (64, 64), "red")
    model.task_dict["own"] = {"test": [{}]}
    first, second = (
        model._answer(model._question(text, {"max_new_tokens": 2}, lambda _: [picture, picture], 0, "own", "test"))
        for text in ("<image>\nWhich?", "Which?")
    )
    assert first.pruned.text == second.pruned.text
    assert ask(loaded.processor, [picture, picture], "Which?")["pixel_values"].shape[0] == 2


def test_a_question_that_runs_out_of_memory_is_named(evaluation, study, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(evaluation, "timed", full)
    with pytest.raises(MeasurementError, match="document 0 of task 'colours' does not fit into the memory of cpu"):
        asked(evaluation, study, own_tasks(tmp_path))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": "{temperature: 0.7, max_new_tokens: 4}"}, "'colours' draws its answers (temperature 0.7)"),
        ({"options": "{num_beams: 3}"}, "'colours' searches with 3 beams"),
        ({"visual": "'film.mp4'"}, "'colours' shows a str"),
        ({"output_type": "loglikelihood"}, "'colours' is of the kind 'loglikelihood'"),
        ({"data": "nowhere"}, "tasks colours cannot be loaded"),
    ],
)
def test_tasks_that_cannot_be_run_are_refused(evaluation, study, tmp_path, changes, says):
    with pytest.raises(StudyError) as refused:
        asked(evaluation, study, own_tasks(tmp_path, **changes))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_tasks_with_likelihoods_or_several_rounds_are_refused(evaluation, study):
    model = evaluation.PairedModel(resolve(study))

    class Request:
        args = ("context", "target", None, 0, "seedbench_ppl", "test")

    with pytest.raises(StudyError, match="'seedbench_ppl' asks for likelihoods"):
        model.loglikelihood([Request])
    with pytest.raises(StudyError, match="'seedbench_ppl' has several rounds"):
        model.generate_until_multi_round([Request])


def test_the_verb_prints_one_document_and_keeps_the_answers(evaluation, arguments, tmp_path, capsys):
    out = tmp_path / "out"
    found = document(capsys, *arguments, "--out", str(out))
    assert (found["format"], found["version"], found["asked"]) == ("trio-profile", VERSION, ["colours"])
    assert found["environment"]["device_name"] == "cpu" and found["study"]["retentions"] == [0.4]
    assert found["tasks"][0]["prefill_speedup"]["samples"] == 6
    assert found["report"] == str(out / "report.html")
    assert json.loads((out / "evaluation.json").read_text()) == {**found, "report": None}
    lines = (out / "answers.jsonl").read_text().splitlines()
    assert [AnsweredQuestion.model_validate_json(line).document for line in lines] == list(range(6))
    assert run([*arguments, "--out", str(out), "--tasks", "typo"]) == 2
    assert (out / "answers.jsonl").read_text().splitlines() == lines
    capsys.readouterr()
    assert run([*arguments, "--no-dense", "--limit", "2", "--out", str(out)]) == 2
    assert "holds another study: limit (None there, 2 here); dense" in capsys.readouterr().err
    assert run([*arguments, "--no-dense", "--limit", "2", "--out", str(out / "second")]) == 0
    assert "exact_match" in capsys.readouterr().out
    assert len((out / "second" / "answers.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("evaluation", ["stand-in"], indirect=True)  # lmms-eval reads all its tasks each time
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("--tasks", "colour"), "no task 'colour'; did you mean colours"),
        (("--tasks", ","), "no task is named"),
        (("--task-path", "nowhere"), "nowhere' is no directory"),
        (("--model", "llava-1.5-7b"), "'llava-1.5-7b' has no processor"),
        (("--model", "nonesuch"), "unknown model 'nonesuch'"),
        (("--retention", "0.01"), "retention 0.01"),
        (("--method", "fastw"), "unknown method 'fastw'"),
        (("-o", "colour=1"), "'colour'"),
        (("--limit", "0"), "'--limit'"),
        (("--device", "warp"), "device 'warp'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(evaluation, arguments, changed, says, capsys):
    assert says in complaint(capsys, *arguments, *changed)


def test_without_lmms_eval_the_way_out_is_named(arguments, capsys, monkeypatch):
    for name in ("lmms_eval", "lmms_eval.api", "lmms_eval.api.model"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install 'trio-profile[eval]'" in complaint(capsys, *arguments)


def test_no_other_verb_needs_lmms_eval():
    code = (
        "import sys; sys.modules['lmms_eval'] = None; from trio_profile.cli import run; "
        "sys.exit(run(['eval', '--help']) or run(['methods']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--task-path" in done.stdout
