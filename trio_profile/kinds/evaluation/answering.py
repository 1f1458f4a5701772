"""Answer a question by every cell of a study and by the dense model, one after the other, in random order.

All answer greedily, one question at a time. Each answer is timed like the generation of a cell. lmms-eval is not needed
here.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from PIL import Image
from torch import Tensor

from trio_core.engine.calls import cache_of
from trio_core.errors import TrioError
from trio_core.methods.method import Method
from trio_core.pruning import check_prunable, prune
from trio_profile.cost import formula
from trio_profile.engine.plan import Plan, PlannedCell
from trio_profile.errors import MeasurementError, StoreError, is_out_of_memory
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.catalogue import layer_shape
from trio_profile.inputs.chat import Message, ask_in_messages
from trio_profile.inputs.workload import padding, placed
from trio_profile.kinds.evaluation.answers import (
    DENSE,
    Answer,
    AnsweredQuestion,
    AnswerStore,
    PrunedAnswer,
    RefusedCell,
)
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.fidelity import selects_at_random
from trio_profile.profilers.generation import timed
from trio_profile.profilers.memory import held_bytes
from trio_profile.records.schema import Cell


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
    """Answers questions with the model of a plan, and keeps the answers.

    store: gets each answered question, and the cells that are refused.
    cells: the cells that can run. A cell that is refused is taken out.
    Raises a TrioError if no cell can run.
    """

    def __init__(self, plan: Plan, store: AnswerStore, clock: Clock | None = None):
        self.study, self.workload, self.store = plan.study, plan.workload, store
        self.model: Any = plan.workload.model
        self.cells = [planned for planned in plan.cells if planned.cell.id not in store.contents.refused]
        # A picture keeps its number in a later session.
        self._pictures = {
            known.pixels: known.picture for known in store.contents.questions.values() if known.picture is not None
        }
        self._clock = clock or clock_for(plan.workload.device)
        self._is_warm = False
        for record in plan.refused:
            self._refuse(record.cell, record.reason or "")
        for planned in tuple(self.cells):
            try:
                check_prunable(self.model, planned.method)
            except TrioError as error:
                self._leave_out(planned, error)
        for planned in self.cells:
            if type(planned.method).schedule_in is not Method.schedule_in:  # the stages of the others are the study's
                self._require_same_stages(planned)

    def _require_same_stages(self, planned: PlannedCell) -> None:
        """Raise StoreError if a cell would be pruned otherwise than when its first stored answer was given."""
        shape = self.workload.shape.model_copy(update={"batch": 1})
        for known in self.store.contents.questions.values():
            then = known.answer_of(planned.cell.id)
            if known.visual_tokens and isinstance(then, PrunedAnswer) and then.retention < 1:
                schedule = planned.method.schedule_in(layer_shape(shape), known.visual_tokens, shape.num_layers)
                if replace(planned, schedule=schedule).fastv_macs(shape, self.study.gamma) != then.fastv_macs:
                    raise StoreError(
                        f"{planned.cell.variant} at {planned.cell.retention:g} answered with other stages than "
                        f"{schedule.budgets} after layers {schedule.layers}: choose another --out"
                    )
                return

    @property
    def rows(self) -> list[str]:
        """Who answers a question with a picture: `dense`, if the study wants it, and the ids of the cells."""
        return [*([DENSE] if self.study.dense else []), *(planned.cell.id for planned in self.cells)]

    def answer(self, question: Question) -> AnsweredQuestion:
        """Answer a question by all, and keep the answers.

        Raises MeasurementError if it does not fit into memory. Raises a TrioError if no cell can run.
        """
        inputs = placed(ask_in_messages(self.workload.processor, question.messages, question.pictures), self.model)
        try:
            if not self._is_warm:
                self._answer_in_turn(question, inputs)
                self._is_warm = True
            [answered] = self.store.append(self._answer_in_turn(question, inputs))
            return answered
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
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
        visual, shape = 0, self.workload.shape
        if has_picture:
            visual = int(self.workload.adapter.visual_tokens(inputs["input_ids"]).sum())
        dense_macs = formula.fastv_inference([visual] * shape.num_layers, shape.hidden, shape.intermediate)
        dense: Answer | None = None
        answers: dict[str, PrunedAnswer] = {}
        for row in order:
            if row == DENSE:
                dense = self._generate(question, inputs)
                continue
            try:
                answers[row] = self._pruned(by_id[row], question, inputs, dense_macs)
            except TrioError as error:
                where = f"document {question.document} of task {question.task!r}: {error}"
                self._leave_out(by_id[row], type(error)(where))
        pixels = _hash_of(question.pictures)
        return AnsweredQuestion(
            task=question.task,
            split=question.split,
            document=question.document,
            prompt=question.prompt,
            picture=self._number_of(pixels),
            pixels=pixels,
            visual_tokens=visual,
            order=tuple(row for row in order if row == DENSE or row in answers),
            dense=dense,
            dense_fastv_macs=dense_macs,
            answers=tuple(answers[planned.cell.id] for planned in self.cells if has_picture),
        )

    def _number_of(self, pixels: str) -> int | None:
        """Return the number of a picture; None without one. A new picture gets the next number."""
        # A damaged store has gaps, so the next number is not the number of pictures.
        return self._pictures.setdefault(pixels, 1 + max(self._pictures.values(), default=-1)) if pixels else None

    def _refuse(self, cell: Cell, reason: str) -> None:
        """Keep why a cell cannot run. A later session has the reason of the first."""
        if cell.id not in self.store.contents.refused:
            self.store.append(RefusedCell(cell=cell, reason=reason))

    def _leave_out(self, planned: PlannedCell, error: TrioError) -> None:
        """Refuse a cell. Raises the error if it was the last one."""
        self.cells.remove(planned)
        if not self.cells:
            raise error
        self._refuse(planned.cell, str(error))

    def _pruned(self, planned: PlannedCell, question: Question, inputs: Inputs, dense_macs: int) -> PrunedAnswer:
        """Return the answer of one cell. Its MACs are F_inf + F_ov of the paper, from the stages that ran."""
        with prune(self.model, drawn_for(planned.method, question.document)) as trace:
            answer = self._generate(question, inputs)
        macs, shape = dense_macs, self.workload.shape.model_copy(update={"batch": 1})
        if trace.stages:
            macs = replace(planned, schedule=trace.schedules[0]).fastv_macs(shape, self.study.gamma)
        return PrunedAnswer(
            **dict(answer),
            cell=planned.cell,
            retention=trace.realised_retention,
            fastv_macs=macs,
            notes=trace.notes,
        )

    def _generate(self, question: Question, inputs: Inputs) -> Answer:
        """Return one answer of the model in its present state, pruned or dense."""
        generated: list[Tensor] = []
        held: list[int] = []

        def after_prefill(_module: Any, _args: Any, output: Any) -> None:
            if not held:
                held.append(sum(held_bytes(cache_of(output))))

        def generate() -> None:
            # `timed` has marked the end of the prefill when this hook runs, because its own hook is older.
            with self.model.register_forward_hook(after_prefill):
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
    hashed = sha256(b"".join(f"{picture.size}".encode() + picture.tobytes() for picture in pictures))
    return hashed.hexdigest()[:32] if pictures else ""
