"""Accuracy and time from the same run: lmms-eval's tasks put to a pruned model and to the dense one, in turn.

Each question is answered by both before the next is asked, in random order, greedily, one at a time, and timed as a
cell's generation is. Then lmms-eval scores what either side said. Only this file imports lmms-eval, which an extra
brings: `pip install 'trio-profile[eval]'`.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from sys import stderr
from typing import Any, Literal

import torch
from lmms_eval.api.model import lmms  # pyright: ignore[reportMissingImports]
from lmms_eval.evaluator import simple_evaluate  # pyright: ignore[reportMissingImports]
from lmms_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]
from PIL import Image

from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.pruning import prune
from trio_profile.analysis.eval import Answered, Evaluation, Results, Said, summarise_tasks
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs import environment
from trio_profile.inputs.models import BUILTIN, Inputs, Loaded, load
from trio_profile.inputs.workload import ask, padding, placed, prepare
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.latency import timed
from trio_profile.records.schema import Study
from trio_profile.studies.plan import plan

Side = Literal["pruned", "dense"]
MOST_NEW_TOKENS = 1024
"""Of an answer to a task that sets no bound itself; lmms-eval's own for LLaVA."""


def run(
    study: Study,
    names: Sequence[str],
    *,
    task_path: Path | None = None,
    limit: int | None = None,
    dense: bool = True,
    clock: Clock | None = None,
    watch: Callable[[int, int, str], None] | None = None,
    keep: Callable[[Answered], None] | None = None,
) -> Evaluation:
    """Evaluate the study's model under its one method on lmms-eval's tasks of these names, and dense beside it.

    task_path: a directory with tasks of the user's own. limit: no more questions of each task than this. keep: called
    with each question as it has been answered.
    Raises StudyError for tasks that are not there, cannot be loaded or do not generate text, for a model without a
    processor, and what `plan` raises for a method that cannot be had.
    """
    if study.model in BUILTIN and BUILTIN[study.model].processor is None:
        raise StudyError(f"model {study.model!r} has no processor to be asked with; name a checkpoint, --model DIR")
    tasks = _Tasks(names, task_path)
    loaded = load(study)
    method = plan(study, prepare(study, loaded).shape)[0].method
    model = InTurn(study, loaded, method, dense=dense, clock=clock, watch=watch, keep=keep)
    pruned = model.scored("pruned", tasks, limit)
    beside = model.scored("dense", tasks, limit) if dense else None
    return Evaluation(
        environment=environment.collect(study.device),
        lmms_eval=version("lmms-eval"),
        study=study,
        asked=tuple(names),
        limit=limit,
        tasks=summarise_tasks(list(model.answers.values()), pruned, beside),
    )


@dataclass(frozen=True)
class Question:
    """One question of a task as lmms-eval puts it. until: what ends an answer, and is not part of it."""

    task: str
    document: int
    text: str
    pictures: tuple[Image.Image, ...]
    most_new_tokens: int
    until: tuple[str, ...]


class InTurn(lmms):
    """An lmms-eval model that is two: each question is answered pruned and dense, in turn, and remembered.

    `speaks` says whose answers lmms-eval is given. Whichever side is scored second answers from memory.
    """

    def __init__(
        self,
        study: Study,
        loaded: Loaded,
        method: Method,
        *,
        dense: bool = True,
        clock: Clock | None = None,
        watch: Callable[[int, int, str], None] | None = None,
        keep: Callable[[Answered], None] | None = None,
    ):
        super().__init__()
        self.study, self.loaded, self.method, self.dense = study, loaded, method, dense
        self.adapter = adapter_for(loaded.model)
        self.clock = clock or clock_for(loaded.model.device)
        self.watch, self.keep = watch, keep
        self.order = random.Random(study.seed)
        self.speaks: Side = "pruned"
        self.answers: dict[tuple[str, str, int, str], Answered] = {}

    def scored(self, side: Side, tasks: "_Tasks", limit: int | None) -> Results:
        """What lmms-eval makes of one side's answers."""
        self.speaks = side
        # Standard output is for one document.
        with redirect_stdout(stderr):
            return simple_evaluate(
                self,
                tasks=list(tasks.names),
                task_manager=tasks,
                limit=limit,
                log_samples=True,
                bootstrap_iters=0,
                random_seed=self.study.seed,
                numpy_random_seed=self.study.seed,
                torch_random_seed=self.study.seed,
            )

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Answer every request, each with the method and without it where it is not yet."""
        for request in requests:
            _refuse_chance(request.args[4], request.args[1])
        said: list[str] = []
        for number, request in enumerate(requests):
            context, _, _, document, task, split = request.args
            key = (task, split, document, context)
            if key not in self.answers:
                if self.watch is not None:
                    self.watch(number, len(requests), task)
                self.answers[key] = self._answer(self._question(*request.args))
            answer = self.answers[key]
            said.append((answer.pruned if self.speaks == "pruned" else answer.dense or answer.pruned).text)
        if self.watch is not None:
            self.watch(len(requests), len(requests), f"scoring {self.speaks}")
        return said

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Refused: a text after the picture that holds the answer would choose the tokens to answer from."""
        raise StudyError(f"task {requests[0].args[4]!r} asks for likelihoods; only tasks that generate text can be run")

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Refused: a later round begins with a cache that pruning has cut."""
        raise StudyError(f"task {requests[0].args[-2]!r} has several rounds; only tasks with one answer can be run")

    def _question(
        self, context: str, options: Mapping[str, Any], visual: Any, document: int, task: str, split: str
    ) -> Question:
        pictures = tuple(visual(self.task_dict[task][split][document]) or ())
        for picture in pictures:
            if not isinstance(picture, Image.Image):
                raise StudyError(f"task {task!r} shows a {type(picture).__name__}; only pictures can be asked about")
        until = options.get("until") or ()
        return Question(
            task=task,
            document=document,
            text=context,
            pictures=tuple(picture.convert("RGB") for picture in pictures),
            most_new_tokens=int(options.get("max_new_tokens") or MOST_NEW_TOKENS),
            until=tuple(filter(None, [until] if isinstance(until, str) else until)),
        )

    def _answer(self, question: Question) -> Answered:
        inputs = placed(ask(self.loaded.processor, question.pictures, question.text), self.loaded.model)
        try:
            if not self.answers:
                self._in_turn(question, inputs)  # warm-up
            answer = self._in_turn(question, inputs)
        except torch.OutOfMemoryError as error:
            raise MeasurementError(
                f"document {question.document} of task {question.task!r} does not fit into the memory of "
                f"{self.study.device}; choose a smaller --dtype or another --device"
            ) from error
        if self.keep is not None:
            self.keep(answer)
        return answer

    def _in_turn(self, question: Question, inputs: Inputs) -> Answered:
        sides: list[Side] = ["pruned"]
        if question.pictures and self.dense:
            sides.append("dense")
            self.order.shuffle(sides)
        said: dict[Side, Said] = {}
        retention = None
        for side in sides:
            pruned = side == "pruned" and bool(question.pictures)
            with prune(self.loaded.model, self.method) if pruned else nullcontext() as trace:
                said[side] = self._say(question, inputs)
            retention = trace.realised_retention if trace is not None else retention
        return Answered(
            task=question.task,
            document=question.document,
            retention=retention,
            dense_first=sides[0] == "dense" if len(sides) == 2 else None,
            dense=said.get("dense", said["pruned"]) if self.dense else None,
            pruned=said["pruned"],
        )

    def _say(self, question: Question, inputs: Inputs) -> Said:
        """One answer by the model as it is now."""
        generated: list[torch.Tensor] = []
        model: Any = self.loaded.model
        tokenizer: Any = getattr(self.loaded.processor, "tokenizer", self.loaded.processor)

        def generate() -> None:
            # A checkpoint may bring a temperature, which means nothing to a greedy answer.
            generated.append(
                model.generate(
                    **inputs,
                    max_new_tokens=question.most_new_tokens,
                    do_sample=False,
                    num_beams=1,
                    temperature=None,
                    top_p=None,
                    top_k=None,
                    pad_token_id=padding(self.loaded.processor),
                )
            )

        times = timed(model, self.adapter, generate, self.clock)
        new = generated[0][0, inputs["input_ids"].shape[1] :]
        text = tokenizer.decode(new, skip_special_tokens=True)
        for end in question.until:
            text = text.partition(end)[0]
        return Said(
            text=text.strip(),
            tokens=len(new),
            prefill_ms=times.prefill_ms,
            ttft_ms=times.ttft_ms,
            total_ms=times.total_ms,
        )


class _Tasks(TaskManager):
    """The tasks that were asked for: known by name, able to generate text, loaded once however often they are scored.

    Raises StudyError for any other.
    """

    def __init__(self, names: Sequence[str], path: Path | None):
        self.names = tuple(dict.fromkeys(names))
        self._loaded: dict[Any, Any] | None = None
        if not self.names:
            raise StudyError("no task is named: --tasks pope,gqa")
        if path is not None and not path.is_dir():
            raise StudyError(f"task path {str(path)!r} is no directory; name one that holds YAML files of tasks")
        super().__init__(include_path=None if path is None else str(path))
        for name in self.names:
            if name not in self.all_tasks:
                near = get_close_matches(name, self.all_tasks, 3)
                hint = f"did you mean {' or '.join(near)}?" if near else "--task-path DIR adds tasks of your own"
                raise StudyError(f"lmms-eval has no task {name!r}; {hint}")

    def load_task_or_group(self, task_list: Any = None, task_type: Any = "simple") -> dict[Any, Any]:
        """The tasks as lmms-eval loads them, with their data."""
        if self._loaded is not None:
            return self._loaded
        try:
            loaded: dict[Any, Any] = super().load_task_or_group(task_list, task_type)
        # Whatever a foreign task breaks in the loading code, the user's way out is the same.
        except Exception as error:
            cause = error.__cause__ or error  # it tries again and then says only that it did
            said = next(iter(str(cause).splitlines()), "") or type(cause).__name__
            raise StudyError(f"tasks {', '.join(self.names)} cannot be loaded: {said}") from error
        for task in _leaves(loaded):
            if task.OUTPUT_TYPE != "generate_until":
                raise StudyError(
                    f"task {task.config.task!r} is of the kind {task.OUTPUT_TYPE!r}; only generate_until can be run"
                )
        self._loaded = loaded
        return loaded


def _leaves(tasks: Mapping[Any, Any]) -> Iterator[Any]:
    for task in tasks.values():
        if isinstance(task, Mapping):
            yield from _leaves(task)
        else:
            yield task


def _refuse_chance(task: str, options: Mapping[str, Any]) -> None:
    """Raise StudyError for answers that are drawn or searched for: pairs are of what the model says greedily."""
    if options.get("do_sample", True) and float(options.get("temperature") or 0) > 0:
        raise StudyError(
            f"task {task!r} draws its answers (temperature {options['temperature']}); only greedy ones can be run"
        )
    if int(options.get("num_beams") or 1) > 1:
        raise StudyError(f"task {task!r} searches with {options['num_beams']} beams; only greedy answers can be run")
