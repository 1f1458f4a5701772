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
from tests.profile.cli.test_cli import complaint, document
from trio_core.methods import find
from trio_core.pruning import prune
from trio_profile.analysis.eval import Answered, Said, summarise_tasks
from trio_profile.cli import run
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs.models import load
from trio_profile.inputs.workload import ask
from trio_profile.records.schema import Study
from trio_profile.stats.intervals import difference_interval

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
    kept: list[Answered] = []
    return evaluation.run(study, ["colours"], task_path=tasks, keep=kept.append, **options), kept


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


def test_each_side_says_what_the_model_says_alone(evaluation, study, tmp_path):
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


def test_sides_take_turns_and_the_second_score_asks_nobody(evaluation, study, tmp_path, monkeypatch):
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


def test_a_question_without_a_picture_stands_for_both_and_is_not_timed(evaluation, study, tmp_path):
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
    model = evaluation.InTurn(study, loaded, find("trio")(retention=0.4))
    picture = Image.new("RGB", (64, 64), "red")
    model.task_dict["own"] = {"test": [{}]}
    first, second = (
        model._answer(model._question(text, {"max_new_tokens": 2}, lambda _: [picture, picture], 0, "own", "test"))
        for text in ("<image>\nWhich?", "Which?")
    )
    assert first.pruned.text == second.pruned.text
    assert ask(loaded.processor, [picture, picture], "Which?")["pixel_values"].shape[0] == 2


def test_without_memory_the_question_is_named(evaluation, study, tmp_path, monkeypatch):
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


def test_likelihoods_and_rounds_are_refused(evaluation, study):
    model = evaluation.InTurn(study, load(study), find("trio")(retention=0.4))

    class Request:
        args = ("context", "target", None, 0, "seedbench_ppl", "test")

    with pytest.raises(StudyError, match="'seedbench_ppl' asks for likelihoods"):
        model.loglikelihood([Request])
    with pytest.raises(StudyError, match="'seedbench_ppl' has several rounds"):
        model.generate_until_multi_round([Request])


# --- the verb ----------------------------------------------------------------------------------------------------


def test_the_verb_prints_one_document_and_keeps_the_answers(evaluation, arguments, tmp_path, capsys):
    out = tmp_path / "out"
    found = document(capsys, *arguments, "--out", str(out))
    assert (found["format"], found["version"], found["asked"]) == ("trio-profile", 1, ["colours"])
    assert found["environment"]["device_name"] == "cpu" and found["study"]["retentions"] == [0.4]
    assert found["tasks"][0]["prefill_speedup"]["samples"] == 6
    assert json.loads((out / "evaluation.json").read_text()) == found
    lines = (out / "answers.jsonl").read_text().splitlines()
    assert [Answered.model_validate_json(line).document for line in lines] == list(range(6))
    assert run([*arguments, "--out", str(out), "--tasks", "typo"]) == 2
    assert (out / "answers.jsonl").read_text().splitlines() == lines
    capsys.readouterr()
    assert run([*arguments, "--no-dense", "--limit", "2", "--out", str(out)]) == 0
    assert "exact_match" in capsys.readouterr().out
    assert len((out / "answers.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("evaluation", ["stand-in"], indirect=True)  # lmms-eval reads all its tasks each time
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("--tasks", "colour"), "no task 'colour'; did you mean colours"),
        (("--tasks", ","), "no task is named"),
        (("--task-path", "nowhere"), "'nowhere' is no directory"),
        (("--model", "llava-1.5-7b"), "'llava-1.5-7b' has no processor"),
        (("--model", "nonesuch"), "unknown model 'nonesuch'"),
        (("--retention", "0.01"), "retention 0.01"),
        (("--method", "fastw"), "unknown method 'fastw'"),
        (("-o", "colour=1"), "'colour'"),
        (("--limit", "0"), "--limit 0"),
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


# --- what is derived ---------------------------------------------------------------------------------------------


def test_the_interval_of_a_difference_by_hand():
    """Ten pairs that agree and the two that are added: variance 2/12, so 1.96 · √(2/12/12)."""
    assert difference_interval([0.0] * 10) == pytest.approx((-0.23099, 0.23099), abs=1e-5)
    low, high = difference_interval([-1.0, -1.0, 0.0, 0.0])
    assert (low + high) / 2 == pytest.approx(-2 / 6)
    assert difference_interval([1.0])[1] == 1.0
    for bad in ([], [2.0], [float("nan")]):
        with pytest.raises(MeasurementError):
            difference_interval(bad)


def test_the_interval_of_a_difference_covers():
    generator = np.random.default_rng(0)
    for n in (20, 200):
        drawn = generator.choice([-1.0, 0.0, 1.0], p=[0.08, 0.9, 0.02], size=(2000, n))
        hits = [low <= -0.06 <= high for low, high in map(difference_interval, drawn)]
        assert np.mean(hits) > 0.93


def test_only_means_of_scores_by_document_have_an_interval():
    def side(scores, f1):
        rows = [
            {"doc_id": i, "accuracy": {"score": s}, "f1": {"score": s}, "marks": 100 * s} for i, s in enumerate(scores)
        ]
        mean = sum(scores) / len(scores)
        metrics = {"alias": "yes", "accuracy,none": np.float64(mean), "f1,none": f1, "marks,none": 100 * mean}
        extras = {"accuracy_stderr,none": "N/A", "file,none": "answers.json", "nothing,none": float("nan")}
        return {"results": {"yes": metrics | extras}, "samples": {"yes": rows}, "higher_is_better": {}}

    (task,) = summarise_tasks([], side([1.0, 0.0, 1.0], 0.7), side([1.0, 1.0, 1.0], 0.9))
    by_metric = {score.metric: score for score in task.scores}
    assert set(by_metric) == {"accuracy", "f1", "marks"}
    assert by_metric["accuracy"].ci95 == difference_interval([0.0, -1.0, 0.0])
    assert by_metric["f1"].ci95 is None and by_metric["f1"].difference == pytest.approx(-0.2)
    assert by_metric["marks"].ci95 is None


def test_scores_that_are_all_alike_have_one_only_where_the_task_declares_a_mean():
    rows = [{"doc_id": i, "match": 0.0, "f1": 0.0} for i in range(10)]
    listed = [{"metric": "match", "aggregation": "mean"}, {"metric": "f1", "aggregation": "function"}]
    side = {
        "results": {"yes": {"match,none": 0.0, "f1,none": 0.0}},
        "samples": {"yes": rows},
        "higher_is_better": {},
        "configs": {"yes": {"metric_list": listed}},
    }
    (task,) = summarise_tasks([], side, side)
    assert [score.ci95 for score in task.scores] == [difference_interval([0.0] * 10), None]


def test_each_filter_has_its_own_samples():
    def side(strict, flexible):
        rows = [{"doc_id": i, "match": s} for scores in (strict, flexible) for i, s in enumerate(scores)]
        results = {"match,strict": sum(strict) / 2, "match,flexible": sum(flexible) / 2}
        return {"results": {"sums": results}, "samples": {"sums": rows}, "higher_is_better": {"sums": {"match": True}}}

    (task,) = summarise_tasks([], side([0, 0], [1, 0]), side([0, 1], [1, 1]))
    assert [(s.filter, s.difference, s.ci95) for s in task.scores] == [
        ("strict", -0.5, difference_interval([0.0, -1.0])),
        ("flexible", -0.5, difference_interval([0.0, -1.0])),
    ]


def test_a_group_has_scores_and_no_times():
    said = Said(text="yes", tokens=1, prefill_ms=2.0, ttft_ms=3.0, total_ms=4.0)
    answer = Answered(task="pope_adv", document=0, retention=0.3, dense_first=True, dense=said, pruned=said)
    results = {"pope_full": {"accuracy,none": 0.5, "alias": "pope_full"}, "pope_adv": {"accuracy,none": 0.5}}
    found = {"results": results, "samples": {}, "higher_is_better": {"pope_full": {"accuracy": True}}}
    group, leaf = summarise_tasks([answer], found, found)
    assert (group.questions, group.prefill_ms, group.scores[0].difference) == (0, None, 0.0)
    assert (leaf.questions, leaf.prefill_speedup.value, leaf.same_answer.value) == (1, 1.0, 1.0)
