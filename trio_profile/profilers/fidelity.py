"""How close a pruned model stays to the dense model, question by question.

With questions, both models answer by `generate`. Three things are compared: the distribution of the first token with
the dense model's, the answer with the dense model's, and the answer with the known answer, if there is one. Without
questions, the prefill of random pictures shows how far the next token's distribution moved. For a model with random
weights this says how much of the dense computation is left, and nothing about answers.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_profile.errors import MeasurementError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.questions import pictures_of
from trio_profile.inputs.workload import Workload, answer_tokens, padding, placed
from trio_profile.records.schema import Fidelity

Answered = Callable[[int, int], None]
"""Called with how many answers there are, and of how many."""
SEEDS = 3
"""A random method is measured with so many seeds, because one draw says little."""


@dataclass(frozen=True)
class Said:
    """The output of a model for one batch.

    next_token: [B, V] log-probabilities.
    answers: generated texts; empty if there are no questions.
    """

    next_token: Tensor
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Inputs that run together.

    numbers: the number of the question or picture of each sample.
    inputs: of the model's forward. Those of questions are on the CPU, because there may be many.
    dense: the dense model's output.
    """

    numbers: tuple[int, ...]
    inputs: Inputs
    dense: Said


@dataclass(frozen=True)
class Reference:
    """The dense model's output for all inputs.

    new_tokens: the longest answer in tokens; 0 if nothing is generated.
    """

    workload: Workload
    batches: tuple[Batch, ...]
    new_tokens: int = 0

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether the dense model's answer to each question is right. Empty if no answers are known."""
        return in_order((batch.numbers, _correct(self.workload, batch, batch.dense)) for batch in self.batches)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each question."""
        return tuple(question.kind for question in self.workload.questions)

    @property
    def pictures(self) -> tuple[int, ...]:
        """The number of the picture of each question. Questions with one number share a picture."""
        return pictures_of(self.workload.questions)


def reference(workload: Workload, pictures: int, seed: int, answered: Answered | None = None) -> Reference:
    """Run the dense model on the workload's questions; without questions on its picture and on random ones.

    pictures: number of pictures, the workload's own included.
    answered: called after each batch with how many questions are answered, and of how many.
    """
    if workload.questions:
        tokens = _answer_length(workload)
        batches: list[Batch] = []
        for numbers, inputs in workload.asked_together():
            batches.append(Batch(tuple(numbers), inputs, _say(workload, inputs, None, tokens)))
            if answered is not None:
                answered(sum(len(batch.numbers) for batch in batches), len(workload.questions))
        return Reference(workload, tuple(batches), tokens)
    generator = torch.Generator().manual_seed(seed)
    drawn = (workload, *(workload.redrawn(generator) for _ in range(pictures - 1)))
    size = workload.shape.batch
    return Reference(
        workload,
        tuple(
            Batch(tuple(range(i * size, (i + 1) * size)), one.inputs, _say(workload, one.inputs, None, 0))
            for i, one in enumerate(drawn)
        ),
    )


def measure(method: Method, against: Reference, answered: Answered | None = None) -> Fidelity:
    """Run the pruned model on every batch and compare it with the dense model.

    The values are in the order of the questions. A random method gives them once for each seed.
    answered: called after each batch with how many answers there are, and of how many.
    Raises MeasurementError if logits are not finite.
    """
    kl: tuple[float, ...] = ()
    top1: tuple[bool, ...] = ()
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()
    done, whole = 0, sum(len(batch.numbers) for batch in against.batches)
    draws = SEEDS if selects_at_random(method) else 1
    for draw in range(draws):
        said: list[tuple[Batch, Said]] = []
        for batch in against.batches:
            drawn = _drawn(method, draw, batch)
            said.append((batch, _say(against.workload, batch.inputs, drawn, against.new_tokens)))
            done += len(batch.numbers)
            if answered is not None:
                answered(done, draws * whole)
        kl += in_order((batch.numbers, kl_nats(batch.dense.next_token, pruned.next_token)) for batch, pruned in said)
        top1 += in_order(
            (batch.numbers, (batch.dense.next_token.argmax(-1) == pruned.next_token.argmax(-1)).tolist())
            for batch, pruned in said
        )
        same += in_order(
            (batch.numbers, [a == b for a, b in zip(batch.dense.answers, pruned.answers, strict=True)])
            for batch, pruned in said
        )
        correct += in_order((batch.numbers, _correct(against.workload, batch, pruned)) for batch, pruned in said)
    return Fidelity(draws=draws, kl_nats=kl, top1=top1, same=same, correct=correct)


def kl_nats(dense: Tensor, pruned: Tensor) -> list[float]:
    """KL(dense ‖ pruned) in nats, for each row of [B, V] log-probabilities."""
    # Rounding may give a value just below 0.
    return (dense.exp() * (dense - pruned)).sum(dim=-1).clamp_min(0).tolist()


def in_order(parts: Any) -> tuple[Any, ...]:
    """The values of all batches in the order of their questions.

    parts: (numbers of the questions, values) of each batch.
    """
    paired = [pair for numbers, values in parts if values for pair in zip(numbers, values, strict=True)]
    return tuple(value for _, value in sorted(paired, key=lambda pair: pair[0]))


def _answer_length(workload: Workload) -> int:
    if workload.questions[0].answer is None:
        return workload.new_tokens
    return max(answer_tokens(workload.processor, question) for question in workload.questions)


def _correct(workload: Workload, batch: Batch, said: Said) -> Sequence[bool]:
    asked = [workload.questions[number] for number in batch.numbers] if said.answers else []
    if not asked or asked[0].answer is None:
        return []
    return [question.is_answered_by(answer) for question, answer in zip(asked, said.answers, strict=True)]


def selects_at_random(method: Method) -> bool:
    """Whether a method draws its selection from a seed."""
    return "seed" in {field.name for field in fields(method)}


def _drawn(method: Method, draw: int, batch: Batch) -> Method:
    """The method with a seed for this draw and batch. So each batch has another random selection."""
    if not selects_at_random(method):
        return method
    drawn: Any = method
    return replace(drawn, seed=drawn.seed + SEEDS * batch.numbers[0] + draw)


def _say(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Said:
    """The model's output for a batch. If the batch does not fit into memory, each half runs separately."""
    samples = len(inputs["input_ids"])
    try:
        return _said(workload, inputs, method, new_tokens)
    except torch.OutOfMemoryError as error:
        if samples == 1:
            if method is not None:
                raise
            raise MeasurementError(
                f"a question does not fit into the memory of {workload.device}; choose a smaller --dtype, or --asked 0"
            ) from error
    torch.cuda.empty_cache()
    # Every sample has the same number of rows of a tensor, because a batch holds only inputs of one size.
    parts = [samples // 2, samples - samples // 2]
    rows = {name: value.split([len(value) // samples * part for part in parts]) for name, value in inputs.items()}
    halves = ({name: value[half] for name, value in rows.items()} for half in (0, 1))
    first, second = (_say(workload, half, method, new_tokens) for half in halves)
    return Said(torch.cat([first.next_token, second.next_token]), first.answers + second.answers)


@torch.no_grad()
def _said(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Said:
    inputs = placed(inputs, workload.model)
    with nullcontext() if method is None else prune(workload.model, method):
        if not new_tokens:
            logits = workload.model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
            return Said(_log_softmax(workload, logits))
        model: Any = workload.model
        out = model.generate(
            **inputs,
            max_new_tokens=new_tokens,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            pad_token_id=padding(workload.processor),
        )
    answers = out.sequences[:, inputs["input_ids"].shape[1] :]
    tokenizer = workload.processor.tokenizer
    return Said(_log_softmax(workload, out.logits[0]), tuple(tokenizer.batch_decode(answers, skip_special_tokens=True)))


def _log_softmax(workload: Workload, logits: Tensor) -> Tensor:
    if not logits.isfinite().all():
        raise MeasurementError(
            f"logits in {str(workload.model.dtype).removeprefix('torch.')} are not finite; choose another --dtype"
        )
    return logits.double().log_softmax(dim=-1)
