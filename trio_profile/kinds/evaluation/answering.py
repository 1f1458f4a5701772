"""Answer a question by every cell of a study and by the dense model, one after the other, in random order.

All answer greedily, one question at a time. Each answer is timed like the generation of a cell. lmms-eval is not needed
here.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from trio_core.engine.calls import cache_of
from trio_core.errors import TrioError
from trio_core.methods.method import Method
from trio_core.pruning import check_prunable, prune
from trio_core.trace import Trace
from trio_profile.cost import formula
from trio_profile.engine.plan import Plan, PlannedCell
from trio_profile.errors import MeasurementError
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.chat import Message, ask_in_messages
from trio_profile.inputs.workload import padding, placed
from trio_profile.kinds.evaluation.answers import DENSE, Answer, AnsweredQuestion, PrunedAnswer
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.fidelity import selects_at_random
from trio_profile.profilers.generation import timed
from trio_profile.profilers.memory import held_bytes

Refuse = Callable[[PlannedCell, str], None]
"""Called with a cell that cannot run, and with the reason."""


@dataclass(frozen=True)
class Question:
    """One question of a task.

    task, split, document: name of the task, the split of its data, and number of the question in it.
    prompt: hash of what is asked.
    messages: as in `inputs/chat.py`.
    pictures: in the order of the messages.
    most_new_tokens: the longest answer in tokens.
    until: texts that end an answer. They are not part of it.
    """

    task: str
    split: str
    document: int
    prompt: str
    messages: tuple[Message, ...]
    pictures: tuple[Image.Image, ...]
    most_new_tokens: int
    until: tuple[str, ...]


class Answerer:
    """Answers questions with the model of a plan.

    cells: the cells that can run. A cell that is refused is taken out.
    refuse: called with a cell that is refused.
    pictures: the number of each picture by its hash.
    """

    def __init__(self, plan: Plan, cells: Sequence[PlannedCell], refuse: Refuse, clock: Clock | None = None):
        self.plan, self.study, self.workload = plan, plan.study, plan.workload
        self.model: Any = plan.workload.model
        self.cells = list(cells)
        self.refuse = refuse
        self.pictures: dict[str, int] = {}
        self._clock = clock or clock_for(plan.workload.device)
        self._is_warm = False
        for planned in tuple(self.cells):
            try:
                check_prunable(self.model, planned.method)
            except TrioError as error:
                self._leave_out(planned, error)

    @property
    def rows(self) -> list[str]:
        """Who answers a question with a picture: `dense`, if the study wants it, and the ids of the cells."""
        return [*([DENSE] if self.study.dense else []), *(planned.cell.id for planned in self.cells)]

    def answer(self, question: Question) -> AnsweredQuestion:
        """Answer a question by all.

        Raises MeasurementError if it does not fit into memory. Raises a TrioError if no cell can run.
        """
        inputs = placed(ask_in_messages(self.workload.processor, question.messages, question.pictures), self.model)
        try:
            if not self._is_warm:
                self._answer_in_turn(question, inputs)
                self._is_warm = True
            return self._answer_in_turn(question, inputs)
        except torch.OutOfMemoryError as error:
            raise MeasurementError(
                f"document {question.document} of task {question.task!r} does not fit into the memory of "
                f"{self.study.device}; choose a smaller --dtype or another --device"
            ) from error

    def _answer_in_turn(self, question: Question, inputs: Inputs) -> AnsweredQuestion:
        """Answer a question once by all, in an order that is drawn from the seed and the question alone."""
        has_picture = bool(question.pictures)
        order = self.rows if has_picture else [DENSE]
        random.Random(f"{self.study.seed} {question.task} {question.split} {question.document}").shuffle(order)
        by_id = {planned.cell.id: planned for planned in self.cells}
        visual = int(self.workload.adapter.visual_tokens(inputs["input_ids"]).sum()) if has_picture else 0
        dense: Answer | None = None
        answers: dict[str, PrunedAnswer] = {}
        for row in order:
            if row == DENSE:
                dense = self._generate(question, inputs)
                continue
            try:
                answers[row] = self._pruned(by_id[row], question, inputs)
            except TrioError as error:
                where = f"document {question.document} of task {question.task!r}: {error}"
                self._leave_out(by_id[row], type(error)(where))
        pixels = _hash_of(question.pictures)
        return AnsweredQuestion(
            task=question.task,
            split=question.split,
            document=question.document,
            prompt=question.prompt,
            picture=self._number_of(pixels) if has_picture else None,
            pixels=pixels,
            visual_tokens=visual,
            order=tuple(row for row in order if row == DENSE or row in answers),
            dense=dense,
            dense_fastv_macs=self._fastv_macs([visual] * self.workload.shape.num_layers),
            answers=tuple(answers[planned.cell.id] for planned in self.cells if has_picture),
        )

    def _number_of(self, pixels: str) -> int:
        """Return the number of a picture. A new picture gets the next number."""
        # A damaged store has gaps, so the next number is not the number of pictures.
        return self.pictures.setdefault(pixels, 1 + max(self.pictures.values(), default=-1))

    def _leave_out(self, planned: PlannedCell, error: TrioError) -> None:
        """Refuse a cell. Raises the error if it was the last one."""
        self.cells.remove(planned)
        if not self.cells:
            raise error
        self.refuse(planned, str(error))

    def _fastv_macs(self, tokens_by_layer: Sequence[int]) -> int:
        shape = self.workload.shape
        return formula.fastv_inference(tokens_by_layer, shape.hidden, shape.intermediate)

    def _pruned(self, planned: PlannedCell, question: Question, inputs: Inputs) -> PrunedAnswer:
        """Return the answer of one cell."""
        with prune(self.model, drawn_for(planned.method, question.document)) as trace:
            answer = self._generate(question, inputs)
        return PrunedAnswer(
            **dict(answer),
            cell=planned.cell,
            retention=trace.realised_retention,
            fastv_macs=self._macs_that_ran(planned, trace),
            notes=trace.notes,
        )

    def _macs_that_ran(self, planned: PlannedCell, trace: Trace) -> int:
        """Return F_inf + F_ov of the paper, from the stages that ran."""
        if not trace.stages:
            return self._fastv_macs([trace.visual_tokens[0]] * self.workload.shape.num_layers)
        ran = replace(planned, schedule=trace.schedules[0])
        return ran.fastv_macs(self.workload.shape.model_copy(update={"batch": 1}), self.study.gamma)

    def _generate(self, question: Question, inputs: Inputs) -> Answer:
        """Return one answer of the model in its present state, pruned or dense."""
        generated: list[Tensor] = []
        held: list[int] = []

        def after_prefill(_module: Any, _args: Any, output: Any) -> None:
            hook.remove()
            held.append(sum(held_bytes(cache_of(output))))

        def generate() -> None:
            nonlocal hook
            # `timed` has marked the end of the prefill when this hook runs, because its own hook is older.
            with self.model.register_forward_hook(after_prefill) as hook:
                # A checkpoint may set a temperature, but greedy answers have none.
                generated.append(
                    self.model.generate(
                        **inputs,
                        max_new_tokens=question.most_new_tokens,
                        do_sample=False,
                        num_beams=1,
                        temperature=None,
                        top_p=None,
                        top_k=None,
                        pad_token_id=padding(self.workload.processor),
                    )
                )

        hook: Any = None
        times = timed(self.model, self.workload.adapter, generate, self._clock)
        new = generated[0][0, inputs["input_ids"].shape[1] :]
        return Answer(
            text=self._text(new, question.until),
            tokens=len(new),
            **times.model_dump(include={"prefill_ms", "ttft_ms", "total_ms"}),
            kv_bytes=held[0],
        )

    def _text(self, tokens: Tensor, until: Sequence[str]) -> str:
        """Return an answer as text, up to the first of the texts that end it."""
        processor: Any = self.workload.processor
        text = getattr(processor, "tokenizer", processor).decode(tokens, skip_special_tokens=True)
        for end in until:
            text = text.partition(end)[0]
        return text.strip()


def drawn_for(method: Method, document: int) -> Method:
    """Return a method for one question. A random method gets another seed for each question."""
    if not selects_at_random(method):
        return method
    seeded: Any = method
    return replace(seeded, seed=seeded.seed + document)


def _hash_of(pictures: Sequence[Image.Image]) -> str:
    """Return a hash of the pixels of all pictures together; empty without pictures."""
    if not pictures:
        return ""
    hashed = sha256()
    for picture in pictures:
        hashed.update(f"{picture.size}".encode() + picture.tobytes())
    return hashed.hexdigest()[:32]
