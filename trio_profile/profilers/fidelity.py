"""How near a pruned model stays to the dense one, and how many answers it keeps, question by question.

Questions are answered by `generate`: the first step's distribution is held against the dense one's, the whole answer
against the dense answer, and against the known one where it is known. Without questions the prefill of drawn pictures
says how far the next token moved; on weights that were never trained that is what is left of the dense model's
computation, and nothing of answers.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_profile.errors import MeasurementError
from trio_profile.inputs.models import Inputs
from trio_profile.inputs.workload import Workload, answer_tokens, padding, placed
from trio_profile.records.schema import Fidelity

SEEDS = 3
"""A method that draws is tried with so many seeds; one draw says little of it."""


@dataclass(frozen=True)
class Said:
    """What a model says to a batch. next_token: [B, V] log-probabilities. answers: generated, to questions alone."""

    next_token: Tensor
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Inputs that run together. numbers: which of the questions, or of the drawn pictures, each sample is.

    inputs: of questions on the CPU, since there may be many.
    """

    numbers: tuple[int, ...]
    inputs: Inputs
    dense: Said


@dataclass(frozen=True)
class Reference:
    """What the dense model says. new_tokens: how many an answer may take; 0 where nothing is generated."""

    workload: Workload
    batches: tuple[Batch, ...]
    new_tokens: int = 0

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether the dense model answers each question as is known; nothing where no answer is."""
        return in_order((batch.numbers, _correct(self.workload, batch, batch.dense)) for batch in self.batches)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of which kind each question is."""
        return tuple(question.kind for question in self.workload.questions)


def reference(workload: Workload, pictures: int, seed: int) -> Reference:
    """Run the dense model on the workload's questions; else on its picture and on drawn ones, `pictures` in all."""
    if workload.questions:
        tokens = _answer_length(workload)
        batches = [
            Batch(tuple(numbers), inputs, _say(workload, inputs, None, tokens))
            for numbers, inputs in workload.asked_together()
        ]
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


def measure(method: Method, against: Reference) -> Fidelity:
    """Prune every batch. The values come in the order of the questions, and once more for each seed of a draw.

    Raises MeasurementError for logits that are not finite.
    """
    kl: tuple[float, ...] = ()
    top1: tuple[bool, ...] = ()
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()
    draws = SEEDS if _draws(method) else 1
    for draw in range(draws):
        said = [
            (batch, _say(against.workload, batch.inputs, _drawn(method, draw, batch), against.new_tokens))
            for batch in against.batches
        ]
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
    """KL(dense ‖ pruned) of each row of [B, V] log-probabilities."""
    # Rounding may leave a divergence of nothing just below it.
    return (dense.exp() * (dense - pruned)).sum(dim=-1).clamp_min(0).tolist()


def in_order(parts: Any) -> tuple[Any, ...]:
    """Values of batches, each with the numbers of what they belong to, in the order of those numbers."""
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


def _draws(method: Method) -> bool:
    return "seed" in {field.name for field in fields(method)}


def _drawn(method: Method, draw: int, batch: Batch) -> Method:
    """The method with a seed of this draw and batch, so that no one draw of tokens speaks for all questions."""
    if not _draws(method):
        return method
    drawn: Any = method
    return replace(drawn, seed=drawn.seed + SEEDS * batch.numbers[0] + draw)


def _say(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Said:
    """What the model says to a batch; where that does not fit into memory, half a batch at a time."""
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
    # Each sample has as many rows of a tensor as any other, since only questions of one size stand together.
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
