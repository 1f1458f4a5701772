"""How far pruning moves the next token, against distributions worked out elsewhere; and whether answers stay."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import torch
from torch.nn.functional import kl_div

from tests.profile.studying import make
from trio_core import prune
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs.workload import Workload, ask, build
from trio_profile.profilers import fidelity
from trio_profile.records.schema import Fidelity


@pytest.fixture(scope="module")
def against(tiny_workload: Workload) -> fidelity.Reference:
    return fidelity.reference(tiny_workload, 3, seed=0)


def test_divergence_equals_torchs(tiny_workload: Workload, against: fidelity.Reference):
    method = Grid(retention=0.4)
    found = fidelity.measure(method, against)
    for batch, kl, same in zip(against.batches, found.kl_nats, found.top1, strict=True):
        workload = replace(tiny_workload, inputs=batch.inputs)
        dense = workload.prefill().logits[0, -1].double()
        with prune(workload.model, method):
            pruned = workload.prefill().logits[0, -1].double()
        assert kl == pytest.approx(kl_div(pruned.log_softmax(0), dense.softmax(0), reduction="sum").item(), rel=1e-9)
        assert same == (dense.argmax() == pruned.argmax()).item()
    assert min(found.kl_nats) > 0


def test_a_random_method_is_run_with_several_seeds(against: fidelity.Reference):
    found = fidelity.measure(Random(retention=0.4, seed=5), against)
    assert len(found.kl_nats) == len(found.top1) == 3 * fidelity.SEEDS
    # Of the first picture the second draw is the first one of the next seed.
    alone = fidelity.measure(Random(retention=0.4, seed=6), against)
    assert alone.kl_nats[0] == found.kl_nats[3]
    assert found.draws == fidelity.SEEDS


@pytest.fixture(scope="module")
def quiz() -> Workload:
    """Twelve questions of three lengths, with known answers."""
    return build(make(fidelity_inputs=12))


@pytest.fixture(scope="module")
def answered(quiz: Workload) -> fidelity.Reference:
    """The dense model's answers to the quiz."""
    return fidelity.reference(quiz, 0, 0)


@pytest.fixture(scope="module")
def answered_pruned(answered: fidelity.Reference) -> Fidelity:
    """The quiz on a grid of 40 % of the tokens."""
    return fidelity.measure(Grid(retention=0.4), answered)


@pytest.mark.slow
def test_questions_of_one_length_run_together_and_come_back_in_order(answered: fidelity.Reference):
    assert [batch.numbers for batch in answered.batches] == [tuple(range(k, 12, 3)) for k in range(3)]
    assert answered.numbers == tuple(range(12))
    assert answered.new_tokens == 2  # a word and the end


def test_an_answer_equals_that_of_generate_on_one_question(
    quiz: Workload, answered: fidelity.Reference, answered_pruned: Fidelity
):
    """In a batch and pruned, as the first question alone through the processor."""
    question = quiz.questions[0]
    inputs = ask(quiz.processor, [question.picture()], question.text)
    texts, logs = [], []
    for pruned in (False, True):
        with prune(quiz.model, Grid(retention=0.4)) if pruned else torch.no_grad():
            out = quiz.model.generate(  # pyright: ignore
                **inputs,
                max_new_tokens=answered.new_tokens,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = out.sequences[:, inputs["input_ids"].shape[1] :]
        texts += quiz.processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
        logs.append(out.logits[0].double().log_softmax(-1))
    assert answered.correct[0] == question.is_answered_by(texts[0])
    assert answered_pruned.correct[0] == question.is_answered_by(texts[1])
    assert answered_pruned.same[0] == (texts[0] == texts[1])
    divergence = kl_div(logs[1], logs[0].exp(), reduction="sum").item()
    assert answered_pruned.kl_nats[0] == pytest.approx(divergence, rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_full_retention_gives_the_same_answers_and_distributions(answered: fidelity.Reference):
    whole = fidelity.measure(Grid(retention=1.0), answered)
    assert all(whole.same) and whole.correct == answered.correct
    assert all(whole.top1) and max(whole.kl_nats) == 0.0 and whole.draws == 1


@pytest.mark.slow
def test_each_question_has_draws_of_its_own(answered: fidelity.Reference, monkeypatch: pytest.MonkeyPatch):
    seeds: list[int] = []
    say, said = fidelity._answer, dict[int, Any]()

    def saying(workload, inputs, method, *how):
        seeds.append(method.seed)
        length = inputs["input_ids"].shape[1]
        said[length] = said.get(length) or say(workload, inputs, method, *how)  # what it says does not matter here
        return said[length]

    monkeypatch.setattr(fidelity, "_answer", saying)
    drawn = fidelity.measure(Random(retention=0.5, seed=100), answered)
    assert drawn.draws == fidelity.SEEDS
    assert len(drawn.correct) == len(drawn.same) == 12 * fidelity.SEEDS
    assert len(seeds) == len(set(seeds)) == fidelity.SEEDS * len(answered.batches)


@pytest.mark.slow
def test_a_batch_that_does_not_fit_is_halved(
    answered: fidelity.Reference, answered_pruned: Fidelity, monkeypatch: pytest.MonkeyPatch
):
    whole, said, sizes = answered_pruned, fidelity._output, list[int]()

    def scarce(workload, inputs, *how):
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return said(workload, inputs, *how)

    monkeypatch.setattr(fidelity, "_output", scarce)
    alone = fidelity.measure(Grid(retention=0.4), answered)
    assert sizes[:7] == [4, 2, 1, 1, 2, 1, 1]
    assert (alone.correct, alone.same, alone.top1) == (whole.correct, whole.same, whole.top1)
    assert alone.kl_nats == pytest.approx(whole.kl_nats, abs=1e-5)


def test_rows_of_three_samples_are_split_between_them(quiz: Workload, monkeypatch: pytest.MonkeyPatch):
    """A picture may be several rows; Qwen's are patches, one sample's behind another's."""
    seen: list[list[int]] = []

    def scarce(_workload, inputs, *_):
        if len(inputs["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        seen.append(inputs["pixel_values"].tolist())
        return fidelity.Output(torch.zeros(1, 2))

    monkeypatch.setattr(fidelity, "_output", scarce)
    inputs = {"input_ids": torch.zeros(3, 5), "pixel_values": torch.arange(12)}
    assert fidelity._answer(quiz, inputs, None, 0).next_token.shape == (3, 2)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_question_that_does_not_fit_alone_is_refused(quiz: Workload, monkeypatch: pytest.MonkeyPatch):
    def scarce(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(fidelity, "_output", scarce)
    with pytest.raises(MeasurementError, match="does not fit into the memory of cpu; choose a smaller --dtype"):
        fidelity.reference(quiz, 0, 0)


def test_logits_that_are_not_finite_are_refused(quiz: Workload, answered: fidelity.Reference):
    head: Any = quiz.model.lm_head
    whole = head.weight.data.clone()
    try:
        head.weight.data[3, 3] = torch.nan
        with pytest.raises(MeasurementError, match="logits in float32 are not finite; choose another --dtype"):
            fidelity.measure(Grid(retention=0.4), answered)
    finally:
        head.weight.data = whole


def test_an_answer_that_the_tokenizer_cannot_spell_is_refused(tmp_path: Path, photograph: Path):
    copy(photograph, tmp_path)
    line = json.dumps({"image": photograph.name, "question": "which digit has the red square ?", "answer": "zebra"})
    (tmp_path / "questions.jsonl").write_text("\n".join([line] * 10), encoding="utf-8")
    with pytest.raises(StudyError, match="answer 'zebra': the tokenizer of 'pocket' cannot spell it"):
        build(make(questions=str(tmp_path / "questions.jsonl")))
