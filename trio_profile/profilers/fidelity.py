"""How close a pruned model stays to the dense model, question by question.

With questions, both models answer by `generate`. Three things are compared: the distribution of the first token with
the dense model's, the answer with the dense model's, and the answer with the known answer, if there is one. Without
questions, the prefill of random pictures shows how far the next token's distribution moved. For a model with random
weights this says how much of the dense computation is left, and nothing about answers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Signal
from trio_profile.errors import MeasurementError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.workload import Workload, answer_tokens, padding, placed
from trio_profile.records.schema import Fidelity
from trio_profile.stats.orders import in_order

Answered = Callable[[int, int], None]
"""Called with how many answers there are, and of how many."""
MOST_REMEMBERED = 2**30
"""Outputs of the vision tower are remembered up to so many bytes."""
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


@dataclass
class TowerOutputs:
    """Remembers what the vision tower makes of a batch of pictures, so that it runs once and not for every method.

    The model's own function for it is replaced for the time of a run. A method that acts before the decoder, or that
    looks into the tower, must not use this.
    """

    _outputs: dict[int, Any] = field(default_factory=dict)
    _bytes: int = 0

    @contextmanager
    def of(self, model: Any, batch: int) -> Iterator[None]:
        """Let the model find the tower's output for a batch, or remember it.

        batch: number of the batch.
        """
        owner: Any = getattr(model, "model", None)
        encode = getattr(owner, "get_image_features", None)
        if encode is None or "get_image_features" in vars(owner):
            yield
            return

        @wraps(encode)  # its signature is read
        def remembered(*args: Any, **kwargs: Any) -> Any:
            if batch in self._outputs:
                return self._outputs[batch]
            output = encode(*args, **kwargs)
            size = _bytes_of(output)
            if self._bytes + size <= MOST_REMEMBERED:
                self._outputs[batch], self._bytes = output, self._bytes + size
            return output

        owner.get_image_features = remembered
        try:
            yield
        finally:
            del owner.get_image_features


@dataclass(frozen=True)
class Reference:
    """The dense model's output for all inputs, or for a share of them.

    new_tokens: the longest answer in tokens; 0 if nothing is generated.
    pictures: what the vision tower made of each batch. Methods that act in the decoder use it again.
    """

    workload: Workload
    batches: tuple[Batch, ...]
    new_tokens: int = 0
    pictures: TowerOutputs = field(default_factory=TowerOutputs)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the questions, ascending."""
        return tuple(sorted(number for batch in self.batches for number in batch.numbers))

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether the dense model's answer to each question is right. Empty if no answers are known."""
        return in_order((batch.numbers, _correct(self.workload, batch, batch.dense)) for batch in self.batches)


def _bytes_of(output: Any) -> int:
    """Return the bytes of all tensors in a nested output."""
    return sum(part.nbytes for part in tree_leaves(output) if isinstance(part, Tensor))


def reference(
    workload: Workload,
    pictures: int,
    seed: int,
    answered: Answered | None = None,
    *,
    share: int = 0,
    shares: int = 1,
) -> Reference:
    """Run the dense model on the workload's questions; without questions on its picture and on random ones.

    pictures: number of pictures, the workload's own included.
    answered: called after each batch with how many questions are answered, and of how many.
    share, shares: run only this one of so many shares of the batches. Each has about as many questions.
    """
    size = workload.shape.batch
    if workload.questions:
        tokens = _answer_length(workload)
        inputs = [(tuple(numbers), inputs) for numbers, inputs in workload.asked_together()]
    else:
        tokens, generator = 0, torch.Generator().manual_seed(seed)
        drawn = (workload, *(workload.redrawn(generator) for _ in range(pictures - 1)))
        inputs = [(tuple(range(i * size, (i + 1) * size)), one.inputs) for i, one in enumerate(drawn)]
    mine, remembered = _share_of(inputs, share, shares), TowerOutputs()
    batches: list[Batch] = []
    for index, (numbers, batch) in enumerate(mine):
        said = _say(workload, batch, None, tokens, partial(remembered.of, workload.model, index))
        batches.append(Batch(numbers, batch, said))
        if answered is not None:
            answered(sum(len(batch.numbers) for batch in batches), sum(len(numbers) for numbers, _ in mine))
    return Reference(workload, tuple(batches), tokens, remembered)


def _share_of(batches: list[tuple[tuple[int, ...], Inputs]], share: int, shares: int) -> list[Any]:
    """Return one share of the batches: each batch, the largest first, goes to the share with the fewest questions."""
    mine, questions = list[Any](), [0] * shares
    for numbers, inputs in sorted(batches, key=lambda batch: -len(batch[0])):
        least = questions.index(min(questions))
        questions[least] += len(numbers)
        if least == share:
            mine.append((numbers, inputs))
    return mine


def measure(method: Method, against: Reference, answered: Answered | None = None) -> Fidelity:
    """Run the pruned model on every batch and compare it with the dense model.

    The values are in the order of the questions. A random method gives them once for each seed.
    answered: called after each batch with how many answers there are, and of how many.
    Raises MeasurementError if logits are not finite.
    """
    compared: dict[str, tuple[Any, ...]] = dict.fromkeys(_COMPARISONS, ())
    done, whole = 0, sum(len(batch.numbers) for batch in against.batches)
    draws = SEEDS if selects_at_random(method) else 1
    for draw in range(draws):
        said: list[tuple[Batch, Said]] = []
        for index, batch in enumerate(against.batches):
            drawn = _drawn(method, draw, batch)
            tower = (
                partial(against.pictures.of, against.workload.model, index) if uses_no_tower(method) else nullcontext
            )
            said.append((batch, _say(against.workload, batch.inputs, drawn, against.new_tokens, tower)))
            done += len(batch.numbers)
            if answered is not None:
                answered(done, draws * whole)
        for name, compare in _COMPARISONS.items():
            values = ((batch.numbers, compare(against.workload, batch, pruned)) for batch, pruned in said)
            compared[name] += in_order(values)
    return Fidelity(draws=draws, **compared)


def kl_nats(dense: Tensor, pruned: Tensor) -> list[float]:
    """KL(dense ‖ pruned) in nats, for each row of [B, V] log-probabilities."""
    # Rounding may give a value just below 0.
    return (dense.exp() * (dense - pruned)).sum(dim=-1).clamp_min(0).tolist()


def _answer_length(workload: Workload) -> int:
    if workload.questions[0].answer is None:
        return workload.new_tokens
    return max(answer_tokens(workload.processor, question) for question in workload.questions)


def _correct(workload: Workload, batch: Batch, said: Said) -> Sequence[bool]:
    asked = [workload.questions[number] for number in batch.numbers] if said.answers else []
    if not asked or asked[0].answer is None:
        return []
    return [question.is_answered_by(answer) for question, answer in zip(asked, said.answers, strict=True)]


_COMPARISONS: dict[str, Callable[[Workload, Batch, Said], Sequence[Any]]] = {
    "kl_nats": lambda _, batch, pruned: kl_nats(batch.dense.next_token, pruned.next_token),
    "top1": lambda _, batch, pruned: (batch.dense.next_token.argmax(-1) == pruned.next_token.argmax(-1)).tolist(),
    "same": lambda _, batch, pruned: [a == b for a, b in zip(batch.dense.answers, pruned.answers, strict=True)],
    "correct": _correct,
}
"""How each field of `Fidelity` follows from a batch and the pruned model's output, a value for each question."""


def selects_at_random(method: Method) -> bool:
    """Whether a method draws its selection from a seed."""
    return "seed" in {field.name for field in fields(method)}


def uses_no_tower(method: Method) -> bool:
    """Whether a method leaves the vision tower as it is, and does not look into it."""
    return method.stage is Stage.DECODER and Signal.ENCODER not in method.needs


def _drawn(method: Method, draw: int, batch: Batch) -> Method:
    """The method with a seed for this draw and batch. So each batch has another random selection."""
    if not selects_at_random(method):
        return method
    drawn: Any = method
    return replace(drawn, seed=drawn.seed + SEEDS * batch.numbers[0] + draw)


def _say(
    workload: Workload,
    inputs: Inputs,
    method: Method | None,
    new_tokens: int,
    tower: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Said:
    """The model's output for a batch. If the batch does not fit into memory, each half runs separately.

    tower: in its context the model may use the tower's output of the whole batch again.
    """
    samples = len(inputs["input_ids"])
    try:
        with tower():
            return _said(workload, inputs, method, new_tokens)
    except torch.OutOfMemoryError as error:
        if samples == 1:
            if method is not None:
                raise
            raise MeasurementError(
                f"a question does not fit into the memory of {workload.device}; choose a smaller --dtype"
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
    with workload.pruned(method):
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
