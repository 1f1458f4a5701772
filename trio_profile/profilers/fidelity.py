"""How near a pruned model stays to the dense one, and how many answers it keeps, question by question.

Questions are answered by `generate`: the first step's distribution is held against the dense one's, the whole answer
against the dense answer, and against the known one where it is known. Without questions the prefill of drawn pictures
says how far the next token moved; on weights that were never trained that is what is left of the dense model's
computation, and nothing of answers.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trio_core.method import Method
from trio_core.pruning import prune
from trio_profile.models import Inputs
from trio_profile.schema import Fidelity
from trio_profile.workload import Workload, answer_tokens

SEEDS = 3
"""A method that draws is tried with so many seeds; one draw says little of it."""


@dataclass(frozen=True)
class Said:
    """What a model says to a batch. next_token: [B, V] log-probabilities. answers: generated, to questions alone."""

    next_token: Tensor
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Inputs that run together. numbers: which of the questions, or of the drawn pictures, each sample is."""

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
            Batch(tuple(numbers), inputs, _say(workload, inputs, None, tokens)) for numbers, inputs in workload.asked()
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
    """Prune every batch. The values come in the order of the questions, and once more for each seed of a draw."""
    kl: tuple[float, ...] = ()
    top1: tuple[bool, ...] = ()
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()
    for one in _seeds(method):
        said = [(batch, _say(against.workload, batch.inputs, one, against.new_tokens)) for batch in against.batches]
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
    return Fidelity(kl_nats=kl, top1=top1, same=same, correct=correct)


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


def _seeds(method: Method) -> Iterator[Method]:
    if "seed" not in {field.name for field in fields(method)}:
        yield method
        return
    drawn: Any = method
    for seed in range(SEEDS):
        yield replace(drawn, seed=drawn.seed + seed)


@torch.no_grad()
def _say(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Said:
    with nullcontext() if method is None else prune(workload.model, method):
        if not new_tokens:
            logits = workload.model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
            return Said(logits.double().log_softmax(dim=-1))
        model: Any = workload.model
        out = model.generate(
            **inputs,
            max_new_tokens=new_tokens,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            pad_token_id=workload.processor.tokenizer.pad_token_id or 0,
        )
    answers = out.sequences[:, inputs["input_ids"].shape[1] :]
    return Said(
        out.logits[0].double().log_softmax(dim=-1),
        tuple(workload.processor.tokenizer.batch_decode(answers, skip_special_tokens=True)),
    )
