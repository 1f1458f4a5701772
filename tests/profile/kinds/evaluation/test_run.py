import json
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import trio_profile
from tests import needs
from tests.profile.command import complaint, document
from tests.profile.kinds.evaluation import lmms_stand_in
from trio_core.errors import RetentionError
from trio_core.methods import find
from trio_core.pruning import prune
from trio_profile.cli import run
from trio_profile.cost import formula
from trio_profile.engine.plan import resolve
from trio_profile.errors import MeasurementError, StoreError, StudyError
from trio_profile.inputs.models import load
from trio_profile.inputs.workload import ask
from trio_profile.installation import install_command
from trio_profile.kinds.evaluation import answering
from trio_profile.kinds.evaluation.answers import AnsweredQuestion
from trio_profile.records.record import VERSION
from trio_profile.records.schema import Study
from trio_profile.stats.intervals import difference_interval

AGGREGATED = "{metric: exact_match, aggregation: !function utils.submitted, higher_is_better: true}"
QUESTIONS = ("Which colour?", "What is drawn, and in which colour is it?", "Round?")


@pytest.fixture(params=["stand-in", "lmms-eval"])
def evaluation(request, monkeypatch):
    """The module over lmms-eval itself where it is installed, and over its stand-in; neither may reach a hub."""
    if request.param == "lmms-eval":
        needs.package("lmms_eval.evaluator", "eval")
    else:
        for name, module in lmms_stand_in.install().items():
            monkeypatch.setitem(sys.modules, name, module)

    def no_network(*_):
        raise OSError("a test reached for the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    module = import_module("trio_profile.kinds.evaluation.run")
    if request.param == "stand-in":
        monkeypatch.setattr(module, "version", lambda _: "0.7.3")
    yield module
    for name in lmms_stand_in.IMPORTERS:
        del sys.modules[name]
    del trio_profile.kinds.evaluation.run, trio_profile.kinds.evaluation.lmms


def own_tasks(
    directory: Path,
    answers=("red", "green", "blue", "red", "green", "blue"),
    *,
    options: str = "{max_new_tokens: 4}",
    visual: str = "doc['image'].convert('RGB')",
    messages: str = "",
    output_type: str = "generate_until",
    data: str = "data",
    metric: str = "{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true}",
    code: str = "",
) -> Path:
    """A directory with one task: a handful of drawn pictures, a question of each, exact match.

    messages: the messages of a document, as Python; without it the task has only a picture and a question.
    code: further code of the task.
    """
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
    (directory / "utils.py").write_text(f"""\
from pathlib import Path


def pictures(doc):
    return [{visual}]


def messages(doc):
    return {messages or None}


def scored(doc, results):
    return {{"exact_match": float(results[0].lower() == doc["answer"].lower())}}


def submitted(scores, args):
    place = Path(args.output_path) / "submissions"
    place.mkdir(parents=True)
    (place / "answers.txt").write_text(str(scores))
    return sum(scores) / len(scores)
{code}""")
    shown = "doc_to_messages: !function utils.messages\n" if messages else ""
    (directory / "colours.yaml").write_text(f"""\
task: colours
dataset_path: imagefolder
dataset_kwargs: {{data_dir: {directory / data}, cache_dir: {directory.parent / "cache"}}}
test_split: test
output_type: {output_type}
{shown}doc_to_visual: !function utils.pictures
doc_to_text: question
doc_to_target: answer
process_results: !function utils.scored
generation_kwargs: {options}
metric_list:
  - {metric}
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


def asked(evaluation, study, path: Path, out: Path | None = None, **options):
    """The document of an evaluation, and its answers in the order of the questions."""
    fields = {"verb": "eval", "tasks": ("colours",), "task_path": str(path), **options}
    out = out or path.parent / f"{path.name}-out"
    out.mkdir(exist_ok=True)
    found = evaluation.run(study.model_copy(update=fields), out)
    return found, answers_in(out)


def answers_in(out: Path) -> list[AnsweredQuestion]:
    """The answers in the order of the questions. A damaged line is passed over."""
    lines = []
    for line in (out / "answers.jsonl").read_text().splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    return [AnsweredQuestion.model_validate(line) for line in lines if line["record"] == "question"]


def exact(answer: AnsweredQuestion) -> dict:
    """All that an answer holds but times and the session."""
    times = {"prefill_ms", "ttft_ms", "total_ms"}
    return answer.model_dump(exclude={"session": True, "dense": times, "answers": {"__all__": times}})


@pytest.mark.slow
def test_questions_that_show_the_same_pixels_have_one_picture(evaluation, study, tmp_path):
    _, apart = asked(evaluation, study, own_tasks(tmp_path / "one"), dense=False)
    assert [answer.picture for answer in apart] == list(range(6))
    corner = "doc['image'].convert('RGB').crop((0, 0, 4, 4)).resize((64, 64))"
    _, same = asked(evaluation, study, own_tasks(tmp_path / "two", visual=corner), dense=False)
    assert {answer.picture for answer in same} == {0}


def test_scores_are_of_the_answers_that_were_timed(evaluation, study, tmp_path):
    _, first = asked(evaluation, study, own_tasks(tmp_path / "one"))
    told = [answer.dense.text for answer in first if answer.dense]
    found, answers = asked(evaluation, study, own_tasks(tmp_path / "two", told))
    assert [exact(answer) for answer in answers] == [exact(answer) for answer in first]
    (cell,), ((dense,),) = found.cells, [found.dense.tasks]
    (task,) = cell.tasks
    (score,) = task.scores
    same = [float(answer.answers[0].text.lower() == answer.dense.text.lower()) for answer in answers]
    assert (score.metric, score.filter, score.higher_is_better) == ("exact_match", "none", True)
    assert (score.dense, score.value) == (1.0, pytest.approx(sum(same) / 6))
    assert dense.scores[0].value == 1.0 and dense.scores[0].dense is None
    assert score.ci95 == pytest.approx(difference_interval([one - 1 for one in same]))
    assert task.questions == 6 == task.prefill_speedup.samples
    ratios = [a.dense.prefill_ms / a.answers[0].prefill_ms for a in answers]
    assert cell.prefill_speedup.value == task.prefill_speedup.value == pytest.approx(np.exp(np.mean(np.log(ratios))))
    for answer in answers:
        for said in (answer.dense, *answer.answers):
            assert 0 < said.prefill_ms <= said.ttft_ms < said.total_ms
            assert 1 <= said.tokens <= 4
    assert found.lmms_eval.startswith("0.")


def test_each_answer_has_its_work_and_its_cache(evaluation, study, tmp_path):
    """36 visual tokens, 6 layers of width 32 with an FFN of 80, 4 bytes a number."""
    found, answers = asked(evaluation, study, own_tasks(tmp_path), limit=1, gamma=2.0)
    (said,), shape = answers[0].answers, resolve(study).workload.shape
    text = answers[0].dense.kv_bytes // (6 * 2 * 32 * 4) - 36
    schedule = find("trio")(retention=0.4).schedule(36, 6)
    kept = sum(schedule.tokens_by_layer)
    assert answers[0].visual_tokens == 36
    assert answers[0].dense_fastv_macs == 6 * formula.fastv_macs(36, 32, 80) == found.dense.fastv_macs
    looked = [n for n, left in zip((36, *schedule.budgets), schedule.budgets, strict=False) if left < n]
    ran = formula.fastv_inference(schedule.tokens_by_layer, 32, 80) + formula.fastv_overhead(looked, 32, 80, 2)
    assert said.fastv_macs == ran == found.cells[0].fastv_macs
    assert said.kv_bytes == (kept + 6 * text) * 2 * 32 * 4 == found.cells[0].kv_bytes
    assert said.retention == pytest.approx(kept / (6 * 36)) == found.cells[0].retention
    assert shape.num_layers == 6 and found.dense.retention == 1


def test_answers_equal_those_of_the_model_on_one_question(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path / "tasks")
    _, answers = asked(evaluation, study, tasks, limit=2)
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
        for said, tokens in ((answer.dense, dense), (answer.answers[0], pruned)):
            assert said.text == loaded.processor.tokenizer.decode(tokens, skip_special_tokens=True).strip()
            assert said.tokens == len(tokens)


def test_all_take_turns_and_scoring_runs_the_model_once(evaluation, study, tmp_path, monkeypatch):
    sides = []
    timed = answering.timed

    def counting(model, *rest):
        layers = model.model.language_model.layers
        sides.append("pruned" if any(layer._forward_pre_hooks for layer in layers) else "dense")
        return timed(model, *rest)

    monkeypatch.setattr(answering, "timed", counting)
    found, answers = asked(evaluation, study, own_tasks(tmp_path), methods=("trio", "fastv"))
    assert [cell.cell.method for cell in found.cells] == ["trio", "fastv"]
    assert len(sides) == 3 + 3 * 6  # warm-up, and each question once by each cell and once by the dense model
    turns = [sides[start : start + 3] for start in range(3, 21, 3)]
    assert [turn.index("dense") for turn in turns] == [answer.order.index("dense") for answer in answers]
    assert all(turn.count("dense") == 1 for turn in turns)
    assert len({answer.order for answer in answers}) > 3


def test_without_dense_there_is_nothing_to_compare(evaluation, study, tmp_path):
    found, answers = asked(evaluation, study, own_tasks(tmp_path), dense=False, limit=2)
    (cell,) = found.cells
    (task,) = cell.tasks
    assert found.dense is None and len(answers) == task.questions == found.study.limit == 2
    assert all(answer.dense is None and len(answer.order) == 1 for answer in answers)
    assert (task.scores[0].dense, task.scores[0].difference, task.scores[0].ci95) == (None, None, None)
    assert (task.same_answer, task.prefill_speedup, cell.average) == (None, None, None)
    assert task.prefill_ms is not None and task.retention == pytest.approx(0.4, abs=0.02)


def test_a_question_without_a_picture_is_answered_once_and_not_timed(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path, visual="*([doc['image'].convert('RGB')] if doc['number'] else [])")
    found, answers = asked(evaluation, study, tasks)
    assert answers[0].order == ("dense",) and answers[0].answers == () and not answers[0].timed
    (task,) = found.cells[0].tasks
    assert task.questions == 6 and task.prefill_ms.samples == 5


@pytest.mark.slow
def test_an_answer_ends_where_the_task_says(evaluation, study, tmp_path):
    _, whole = asked(evaluation, study, own_tasks(tmp_path / "whole"), dense=False)
    end = next(a.answers[0].text[1] for a in whole if len(a.answers[0].text) > 1)
    options = f"{{max_new_tokens: 4, until: [{json.dumps(end)}, '']}}"
    _, cut = asked(evaluation, study, own_tasks(tmp_path / "cut", options=options), dense=False)
    assert [a.answers[0].text for a in cut] == [a.answers[0].text.partition(end)[0].strip() for a in whole]


def test_a_question_that_runs_out_of_memory_is_named(evaluation, study, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(answering, "timed", full)
    with pytest.raises(MeasurementError, match="document 0 of task 'colours' does not fit into the memory of cpu"):
        asked(evaluation, study, own_tasks(tmp_path))


def test_a_cell_that_is_refused_does_not_stop_the_others(evaluation, study, tmp_path, monkeypatch):
    refusing = find("fastv")
    schedule, kept = refusing.schedule, tmp_path / "out" / "answers.jsonl"

    def refuse_the_third(self, visual_tokens, num_layers):
        if self.retention == 0.4 and kept.exists() and len(answers_in(tmp_path / "out")) == 2:
            raise RetentionError("too few tokens here")
        return schedule(self, visual_tokens, num_layers)

    monkeypatch.setattr(refusing, "schedule", refuse_the_third)
    options = {"methods": ("trio", "fastv"), "retentions": (0.01, 0.4)}
    found, answers = asked(evaluation, study, own_tasks(tmp_path / "tasks"), tmp_path / "out", **options)
    assert [(cell.cell.method, cell.cell.retention) for cell in found.cells] == [("trio", 0.4)]
    reasons = {(refusal.cell.method, refusal.cell.retention): refusal.reason for refusal in found.refused}
    assert set(reasons) == {("trio", 0.01), ("fastv", 0.01), ("fastv", 0.4)}
    assert reasons["fastv", 0.4] == "document 2 of task 'colours': too few tokens here"
    assert [len(answer.answers) for answer in answers] == [2, 2, 1, 1, 1, 1]
    again, _ = asked(evaluation, study, tmp_path / "tasks", tmp_path / "out", **options)
    assert again.refused == found.refused
    with pytest.raises(RetentionError, match=r"0\.01"):
        asked(evaluation, study, tmp_path / "tasks", tmp_path / "none", methods=("trio",), retentions=(0.01,))


def test_submissions_of_each_row_are_apart_and_nothing_lies_elsewhere(evaluation, study, tmp_path, monkeypatch):
    tasks = own_tasks(tmp_path / "tasks", metric=AGGREGATED)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    out = tmp_path / "out"
    asked(evaluation, study, tasks, out, retentions=(0.4, 0.7), limit=1)
    files = sorted(path.relative_to(out).as_posix() for path in (out / "submissions").rglob("*") if path.is_file())
    assert files == [f"submissions/{row}/submissions/answers.txt" for row in ("dense", "trio-0.4", "trio-0.7")]
    fields = {"verb": "eval", "tasks": ("colours",), "task_path": str(tasks), "limit": 1}
    evaluation.run(study.model_copy(update=fields))
    assert list((tmp_path / "empty").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} <= {"empty", "out", "tasks", "cache"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": "{temperature: 0.7, max_new_tokens: 4}"}, "'colours' draws its answers (temperature 0.7)"),
        ({"options": "{num_beams: 3}"}, "'colours' searches with 3 beams"),
        ({"visual": "'film.mp4'"}, "'colours' shows 'video'; only pictures"),
        ({"visual": "doc['image'].convert('I')"}, "'colours' shows a picture with one channel of more than 8 bits"),
        ({"visual": "5"}, "document 0 of task 'colours' makes no messages: TypeError: Unsupported visual type"),
        ({"messages": "doc['film']"}, "document 0 of task 'colours' makes no messages: KeyError: 'film'"),
        ({"messages": "'hello'"}, "document 0 of task 'colours' makes no messages: TypeError"),
        ({"output_type": "loglikelihood"}, "'colours' is of the kind 'loglikelihood'"),
        ({"output_type": "generate_until_multi_round"}, "'colours' is of the kind 'generate_until_multi_round'"),
        ({"data": "nowhere"}, "tasks colours cannot be loaded"),
    ],
)
def test_tasks_that_cannot_be_run_are_refused(evaluation, study, tmp_path, changes, says):
    with pytest.raises(StudyError) as refused:
        asked(evaluation, study, own_tasks(tmp_path, **changes))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_task_that_fails_to_score_is_no_fault_of_ours(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path / "tasks", code='def scored(*_): raise KeyError("no such\\nfield")')
    with pytest.raises(StudyError, match=r"the code of a task \(colours\) fails: KeyError: 'no such\\nfield'"):
        asked(evaluation, study, tasks, tmp_path / "out", limit=1)
    assert len(answers_in(tmp_path / "out")) == 1


def test_a_row_without_a_number_has_no_score_there(evaluation, study, tmp_path):
    submitted = 'def submitted(_, args): return 0.5 if args.output_path.endswith("dense") else float("nan")'
    tasks = own_tasks(tmp_path / "tasks", metric=AGGREGATED, code=submitted)
    found, _ = asked(evaluation, study, tasks, limit=1)
    assert found.dense.benchmarks[0].value == 0.5
    assert (found.cells[0].benchmarks, found.cells[0].average) == ((), None)


def test_answers_of_another_schedule_are_not_continued(evaluation, study, tmp_path):
    """As by another version of the method."""
    tasks, out = own_tasks(tmp_path / "tasks"), tmp_path / "out"
    asked(evaluation, study, tasks, out, limit=2)
    file = out / "answers.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()][:-1]
    for line in lines:
        for answer in line.get("answers", ()):
            answer["fastv_macs"] += 1
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(StoreError, match=r"answered with other stages than .* choose another --out"):
        asked(evaluation, study, tasks, out, limit=2)


def test_a_question_that_is_no_longer_asked_does_not_count(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path / "tasks")
    _, answers = asked(evaluation, study, tasks, tmp_path / "out", limit=2)
    other = answers[0].model_copy(update={"prompt": "in other words"})
    with (tmp_path / "out" / "answers.jsonl").open("a") as file:
        file.write(other.model_dump_json() + "\n")
    found, _ = asked(evaluation, study, tasks, tmp_path / "out", limit=2)
    (task,) = found.cells[0].tasks
    assert task.questions == task.prefill_ms.samples == 2


@pytest.mark.slow
def test_a_new_picture_gets_a_new_number_after_a_damaged_line(evaluation, study, tmp_path):
    tasks = own_tasks(tmp_path / "tasks")
    asked(evaluation, study, tasks, tmp_path / "out")
    file = tmp_path / "out" / "answers.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], "damaged", "damaged", *lines[4:]]) + "\n")
    _, answers = asked(evaluation, study, tasks, tmp_path / "out")
    assert sorted(answer.picture for answer in answers) == [2, 3, 4, 5, 6, 7]


@pytest.mark.slow
def test_a_task_with_messages_is_asked_in_them(evaluation, study, tmp_path):
    """The processor has no chat template, so a message with its picture first is like a plain question."""
    shown = "[{'type': 'image', 'url': doc['image']}, {'type': 'text', 'text': doc['question']}]"
    tasks = own_tasks(tmp_path / "same", messages=f"[{{'role': 'user', 'content': {shown}}}]")
    _, same = asked(evaluation, study, tasks, limit=2)
    _, plain = asked(evaluation, study, own_tasks(tmp_path / "plain"), limit=2)
    assert [exact(one) for one in same] == [exact(one) for one in plain]
    for message, says in (
        ("[{'type': 'text', 'text': 'a'}, {'type': 'image', 'url': doc['image']}]", "has no chat template"),
        ("[{'type': 'audio', 'url': 'a.wav'}]", "'colours' shows 'audio'; only pictures"),
    ):
        tasks = own_tasks(tmp_path / says[:6], messages=f"[{{'role': 'user', 'content': {message}}}]")
        with pytest.raises(StudyError, match=says):
            asked(evaluation, study, tasks, limit=1)


@pytest.mark.parametrize("evaluation", ["stand-in"], indirect=True)
@pytest.mark.slow
def test_ablate_on_tasks_compares_each_variant_with_the_default(evaluation, checkpoint, tmp_path, capsys):
    tasks, out = own_tasks(tmp_path / "tasks", answers=("",) * 6), tmp_path / "out"
    arguments = [
        *("ablate", "--model", str(checkpoint), "--only", "saliency", "--retention", "0.4", "--device", "cpu"),
        *("--tasks", "colours", "--task-path", str(tasks), "--limit", "2"),
    ]
    found = document(capsys, *arguments, "--out", str(out))
    assert found["study"]["verb"] == "eval"
    assert [row["cell"]["options"] for row in found["cells"]] == [{}, {"saliency": "autograd"}]
    default, variant = found["cells"]
    assert default["beside_default"] is None
    (score,) = variant["beside_default"]["benchmarks"]
    assert score["difference"] == score["value"] - default["benchmarks"][0]["value"]
    assert "seconds = 2.0: ablate on tasks has no such field" in complaint(capsys, *arguments, "--seconds", "2")
    assert "ablation 'k': choose k_pos" in complaint(capsys, *arguments, "--only", "k")


@pytest.mark.parametrize("evaluation", ["stand-in"], indirect=True)
def test_an_unfinished_evaluation_goes_on_and_prints_one_document(evaluation, arguments, tmp_path, capsys, monkeypatch):
    answer = answering.Answerer.answer

    def interrupted(self, question):
        if question.document == 2:
            raise KeyboardInterrupt
        return answer(self, question)

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(answering.Answerer, "answer", interrupted)
        assert run([*arguments, "--out", str(out)]) == 130
    assert "what was measured is kept, and the same command goes on" in capsys.readouterr().err
    assert not (out / "evaluation.json").exists()
    assert "holds a study already" in complaint(capsys, *arguments, "--no-resume", "--out", out)
    assert "holds answers.jsonl, which is no study of kind 'sweep'" in complaint(capsys, "sweep", "--out", str(out))
    utils = tmp_path / "tasks" / "utils.py"
    code = utils.read_text()
    utils.write_text(code + "# changed")
    assert "the tasks in " in (said := complaint(capsys, *arguments, "--out", out)) and "changed since" in said
    utils.write_text(code)
    found = document(capsys, *arguments, "--out", str(out))
    assert (found["format"], found["version"], found["study"]["tasks"]) == ("trio-profile", VERSION, ["colours"])
    assert found["environment"]["device_name"] == "cpu" and found["study"]["retentions"] == [0.4]
    assert found["cells"][0]["prefill_speedup"]["samples"] == 6
    assert found["report"] == str(out / "report.html")
    del found["conclusion"]
    assert json.loads((out / "evaluation.json").read_text()) == found | {"report": None}
    assert [answer.document for answer in answers_in(out)] == list(range(6)), "an answered question is asked again"
    first, second = (session["id"] for session in found["sessions"])
    assert [answer.session for answer in answers_in(out)] == [first] * 2 + [second] * 4
    said = complaint(capsys, *arguments, "--no-dense", "--limit", "2", "--out", out)
    assert "holds another study: limit (None there, 2 here); dense" in said


@pytest.mark.parametrize("evaluation", ["stand-in"], indirect=True)  # lmms-eval reads all its tasks each time
def test_bad_input_is_one_line_and_exit_2(evaluation, arguments, capsys):
    for changed, says in (
        (("--tasks", "colour"), "no task 'colour'; did you mean colours"),
        (("--tasks", ","), "no task is named"),
        (("--task-path", "nowhere"), "nowhere' is no directory"),
        (("--model", "llava-1.5-7b"), "'llava-1.5-7b' has no processor"),
        (("--retention", "0.01"), "retention 0.01"),
    ):
        assert says in complaint(capsys, *arguments, *changed)


def test_without_lmms_eval_the_way_out_is_named(arguments, capsys, monkeypatch):
    for name in ("lmms_eval", "lmms_eval.api", "lmms_eval.api.model"):
        monkeypatch.setitem(sys.modules, name, None)
    assert install_command("eval") in complaint(capsys, *arguments)
