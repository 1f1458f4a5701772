"""How close a pruned model stays to the dense model, question by question.

With questions, both models answer by `generate`. Three things are compared: the distribution of the first token with
the dense model's, the answer with the dense model's, and the answer with the known answer, if there is one. Without
questions, the prefill of random pictures shows how far the next token's distribution moved. For a model with random
weights this says how much of the dense computation is left, and nothing about answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trio_core.methods.method import Method
from trio_profile.errors import MeasurementError, is_out_of_memory, release
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.workload import Workload, answer_tokens, padding, placed
from trio_profile.records.schema import Fidelity
from trio_profile.stats.orders import in_order

Answered = Callable[[int, int], None]
"""Called with how many answers there are, and of how many."""
SEEDS = 3
"""A random method is measured with so many seeds, because one draw says little."""


@dataclass(frozen=True)
class Output:
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
    dense: Output


@dataclass(frozen=True)
class Reference:
    """The dense model's output for all inputs, or for a share of them.

    new_tokens: the longest answer in tokens; 0 if nothing is generated.
    """

    workload: Workload
    batches: tuple[Batch, ...]
    new_tokens: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the questions, ascending."""
        return tuple(sorted(number for batch in self.batches for number in batch.numbers))

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether the dense model's answer to each question is right. Empty if no answers are known."""
        return in_order((batch.numbers, _correct(self.workload, batch, batch.dense)) for batch in self.batches)


def reference(
    workload: Workload,
    pictures: int,
    seed: int,
    answered: Answered | None = None,
    *,
    first: int = 0,
    share: int = 0,
    shares: int = 1,
) -> Reference:
    """Run the dense model on the workload's questions; without questions on its picture and on random ones.

    pictures: number of pictures, the workload's own included.
    first: number of the first question that is asked.
    answered: called after each batch with how many questions are answered, and of how many.
    share, shares: run only this one of so many shares of the batches. Each has about as many questions.
    """
    size = workload.shape.batch
    if workload.questions:
        tokens = _answer_length(workload)
        inputs = [(tuple(numbers), inputs) for numbers, inputs in workload.asked_together(first)]
    else:
        tokens, generator = 0, torch.Generator().manual_seed(seed)
        drawn = (workload, *(workload.redrawn(generator) for _ in range(pictures - 1)))
        inputs = [(tuple(range(i * size, (i + 1) * size)), picture.inputs) for i, picture in enumerate(drawn)]
    mine = _share_of(inputs, share, shares)
    batches: list[Batch] = []
    for numbers, batch in mine:
        batches.append(Batch(numbers, batch, _answer(workload, batch, None, tokens)))
        if answered is not None:
            answered(sum(len(batch.numbers) for batch in batches), sum(len(numbers) for numbers, _ in mine))
    return Reference(workload, tuple(batches), tokens)


def _share_of(batches: list[tuple[tuple[int, ...], Inputs]], share: int, shares: int) -> list[Any]:
    """Return one share of the batches: each batch, the largest first, goes to the share with the fewest questions."""
    mine, questions = list[Any](), [0] * shares
    for numbers, inputs in sorted(batches, key=lambda batch: -len(batch[0])):
        least = questions.index(min(questions))
        questions[least] += len(numbers)
        if least == share:
            mine.append((numbers, inputs))
    return mine


def measure(method: Method, against: Reference) -> Fidelity:
    """Run the pruned model on every batch and compare it with the dense model.

    The values are in the order of the questions. A random method gives them once for each seed.
    Raises MeasurementError if logits are not finite.
    """
    compared: dict[str, tuple[Any, ...]] = dict.fromkeys(_COMPARISONS, ())
    draws = SEEDS if selects_at_random(method) else 1
    for draw in range(draws):
        outputs = [
            _answer(against.workload, batch.inputs, _drawn(method, draw, batch), against.new_tokens)
            for batch in against.batches
        ]
        for name, compare in _COMPARISONS.items():
            pairs = zip(against.batches, outputs, strict=True)
            compared[name] += in_order((batch.numbers, compare(against.workload, batch, out)) for batch, out in pairs)
    return Fidelity(draws=draws, **compared)


def kl_nats(dense: Tensor, pruned: Tensor) -> list[float]:
    """KL(dense ‖ pruned) in nats, for each row of [B, V] log-probabilities."""
    # Rounding may give a value just below 0.
    return (dense.exp() * (dense - pruned)).sum(dim=-1).clamp_min(0).tolist()


def _answer_length(workload: Workload) -> int:
    if workload.questions[0].answer is None:
        return workload.new_tokens
    return max(answer_tokens(workload.processor, question) for question in workload.questions)


def _correct(workload: Workload, batch: Batch, output: Output) -> Sequence[bool]:
    questions = [workload.questions[number] for number in batch.numbers] if output.answers else []
    if not questions or questions[0].answer is None:
        return []
    return [question.is_answered_by(answer) for question, answer in zip(questions, output.answers, strict=True)]


_COMPARISONS: dict[str, Callable[[Workload, Batch, Output], Sequence[Any]]] = {
    "kl_nats": lambda _, batch, pruned: kl_nats(batch.dense.next_token, pruned.next_token),
    "top1": lambda _, batch, pruned: (batch.dense.next_token.argmax(-1) == pruned.next_token.argmax(-1)).tolist(),
    "same": lambda _, batch, pruned: [a == b for a, b in zip(batch.dense.answers, pruned.answers, strict=True)],
    "correct": _correct,
}
"""How each field of `Fidelity` follows from a batch and the pruned model's output, a value for each question."""


def selects_at_random(method: Method) -> bool:
    """Whether a method draws its selection from a seed."""
    return "seed" in {field.name for field in fields(method)}


def _drawn(method: Method, draw: int, batch: Batch) -> Method:
    """The method with a seed for this draw and batch. So each batch has another random selection."""
    if not selects_at_random(method):
        return method
    drawn: Any = method
    return replace(drawn, seed=drawn.seed + SEEDS * batch.numbers[0] + draw)


def _answer(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Output:
    """Return the model's output for a batch. If the batch does not fit into memory, each half runs separately."""
    samples = len(inputs["input_ids"])
    try:
        return _output(workload, inputs, method, new_tokens)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if samples == 1:
            if method is not None:
                raise
            raise MeasurementError(
                f"a question does not fit into the memory of {workload.device}; choose a smaller --dtype"
            ) from error
        release(error)
    torch.cuda.empty_cache()
    # Every sample has the same number of rows of a tensor, because a batch holds only inputs of one size.
    parts = [samples // 2, samples - samples // 2]
    rows = {name: value.split([len(value) // samples * part for part in parts]) for name, value in inputs.items()}
    halves = ({name: value[half] for name, value in rows.items()} for half in (0, 1))
    first, second = (_answer(workload, half, method, new_tokens) for half in halves)
    return Output(torch.cat([first.next_token, second.next_token]), first.answers + second.answers)


@torch.no_grad()
def _output(workload: Workload, inputs: Inputs, method: Method | None, new_tokens: int) -> Output:
    inputs = placed(inputs, workload.model)
    with workload.pruned(method):
        if not new_tokens:
            logits = workload.model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
            return Output(_log_softmax(workload, logits))
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
    return Output(
        _log_softmax(workload, out.logits[0]), tuple(tokenizer.batch_decode(answers, skip_special_tokens=True))
    )


def _log_softmax(workload: Workload, logits: Tensor) -> Tensor:
    if not logits.isfinite().all():
        raise MeasurementError(
            f"logits in {str(workload.model.dtype).removeprefix('torch.')} are not finite; choose another --dtype"
        )
    return logits.double().log_softmax(dim=-1)
