"""The kind `eval`: accuracy and time of a pruned model and of the dense model on lmms-eval's tasks, from the same run.

Both models answer a question before the next question, in random order. They answer greedily, one question at a
time. Each answer is timed like the generation of a cell. Then lmms-eval scores the answers of both models. Only this
file imports lmms-eval, which needs an extra: `pip install 'trio-profile[eval]'`.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from sys import stderr
from typing import Any, Literal

import torch
from lmms_eval.api.model import lmms  # pyright: ignore[reportMissingImports]
from lmms_eval.evaluator import simple_evaluate  # pyright: ignore[reportMissingImports]
from lmms_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]
from PIL import Image

from trio_core.pruning import prune
from trio_profile.analysis.eval import Answer, AnsweredQuestion, Evaluation, Results, summarise_tasks
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs.builtin import BUILTIN, Inputs
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.workload import ask, padding, placed
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.generation import timed
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.files import ANSWERS
from trio_profile.records.schema import Study
from trio_profile.records.writing import record_writer
from trio_profile.studies.plan import Plan, resolve
from trio_profile.text import first_line

Side = Literal["pruned", "dense"]
MOST_NEW_TOKENS = 1024
"""The longest answer in tokens, if the task sets no limit. [lmms-eval's limit for LLaVA]."""


def prepare(study: Study) -> Study:
    """Return the study unchanged. Raises StudyError if it has no tasks, or if its model has no processor."""
    if not study.tasks:
        raise StudyError("no task is named: give --tasks pope,gqa")
    if study.model in BUILTIN and BUILTIN[study.model].processor is None:
        raise StudyError(f"model {study.model!r} has no processor to be asked with; name a checkpoint, --model DIR")
    return study


def run(
    study: Study, directory: Path | None = None, watch: Watch = ignore, *, clock: Clock | None = None
) -> Evaluation:
    """Evaluate the study's method on lmms-eval's tasks, and the dense model if the study wants it.

    directory: each answer is written to `answers.jsonl` here as soon as it is given.
    watch: called with each step.
    clock: clock of the device; None for the default clock.
    Raises StudyError if a task does not exist, cannot be loaded or does not generate text. Raises as `resolve` does if
    the method cannot run.
    """
    tasks = _Tasks(study.tasks, None if study.task_path is None else Path(study.task_path))
    watch(Step(f"loading {study.model}"))
    plan = resolve(study)
    session = open_session(study.device, inputs=input_digests(study))
    with nullcontext() if directory is None else record_writer(directory / ANSWERS) as write:
        model = PairedModel(plan, clock=clock, watch=watch, write=write)
        pruned = model.score("pruned", tasks)
        dense = model.score("dense", tasks) if study.dense else None
    return Evaluation(
        sessions=(session,),
        environment=session.environment,
        lmms_eval=version("lmms-eval"),
        study=study,
        asked=study.tasks,
        limit=study.limit,
        tasks=summarise_tasks(list(model.answers.values()), pruned, dense),
    )


@dataclass(frozen=True)
class Question:
    """One question of a task.

    task, document: name of the task, and number of the question in it.
    text: the question.
    pictures: its pictures.
    most_new_tokens: the longest answer in tokens.
    until: texts that end an answer. They are not part of it.
    """

    task: str
    document: int
    text: str
    pictures: tuple[Image.Image, ...]
    most_new_tokens: int
    until: tuple[str, ...]


class PairedModel(lmms):
    """A model for lmms-eval that answers each question twice, pruned and dense, and remembers both answers.

    lmms-eval gets the answers of the side that is being scored. The side that is scored second answers from memory.

    plan: the study's plan.
    clock: clock of the device; None for the default clock.
    watch: called with each step.
    write: called with the answers to each question; None if they are not written.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        clock: Clock | None = None,
        watch: Watch = ignore,
        write: Callable[[AnsweredQuestion], None] | None = None,
    ):
        super().__init__()
        self.study, self.method = plan.study, plan.cells[0].method
        self.llm, self.processor, self.adapter = plan.workload.model, plan.workload.processor, plan.workload.adapter
        self.clock = clock or clock_for(plan.workload.device)
        self.watch, self.write = watch, write
        self.order = random.Random(self.study.seed)
        self.scored_side: Side = "pruned"
        self.pictures: dict[str, int] = {}
        self.answers: dict[tuple[str, str, int, str], AnsweredQuestion] = {}

    def score(self, side: Side, tasks: "_Tasks") -> Results:
        """Return lmms-eval's results for one side's answers."""
        self.scored_side = side
        # lmms-eval prints, but standard output is only for the document.
        with redirect_stdout(stderr):
            return simple_evaluate(
                self,
                tasks=list(tasks.names),
                task_manager=tasks,
                limit=self.study.limit,
                log_samples=True,
                bootstrap_iters=0,
                random_seed=self.study.seed,
                numpy_random_seed=self.study.seed,
                torch_random_seed=self.study.seed,
            )

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return the scored side's answer to each request. A new question is first answered by both sides."""
        for request in requests:
            _require_greedy(request.args[4], request.args[1])
        texts: list[str] = []
        for number, request in enumerate(requests):
            context, _, _, document, task, split = request.args
            key = (task, split, document, context)
            if key not in self.answers:
                self.watch(Step(f"{task}: {number} of {len(requests)} questions", number, len(requests)))
                self.answers[key] = self._answer(self._question(*request.args))
            answer = self.answers[key]
            texts.append((answer.pruned if self.scored_side == "pruned" else answer.dense or answer.pruned).text)
        self.watch(Step(f"scoring {self.scored_side}", len(requests), len(requests)))
        return texts

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Raise StudyError. The prompt contains the answer, so the answer would influence the selection."""
        raise StudyError(f"task {requests[0].args[4]!r} asks for likelihoods; only tasks that generate text can be run")

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Raise StudyError. A later round would start with a KV cache that pruning has shortened."""
        raise StudyError(f"task {requests[0].args[-2]!r} has several rounds; only tasks with one answer can be run")

    def _question(
        self, context: str, options: Mapping[str, Any], visual: Any, document: int, task: str, split: str
    ) -> Question:
        """Return the question of a request. Raises StudyError if it shows anything but pictures."""
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

    def _picture(self, pictures: Sequence[Image.Image]) -> int | None:
        """Return the number of these pictures: the same one for the same pixels. None without pictures."""
        if not pictures:
            return None
        hashed = sha256()
        for picture in pictures:
            hashed.update(f"{picture.size}".encode() + picture.tobytes())
        return self.pictures.setdefault(hashed.hexdigest(), len(self.pictures))

    def _answer(self, question: Question) -> AnsweredQuestion:
        """Answer a question with both models. Raises MeasurementError if it does not fit into memory."""
        inputs = placed(ask(self.processor, question.pictures, question.text), self.llm)
        try:
            if not self.answers:
                self._answer_in_turn(question, inputs)  # warm-up
            answer = self._answer_in_turn(question, inputs)
        except torch.OutOfMemoryError as error:
            raise MeasurementError(
                f"document {question.document} of task {question.task!r} does not fit into the memory of "
                f"{self.study.device}; choose a smaller --dtype or another --device"
            ) from error
        if self.write is not None:
            self.write(answer)
        return answer

    def _answer_in_turn(self, question: Question, inputs: Inputs) -> AnsweredQuestion:
        """Answer a question once with each model, in random order."""
        sides: list[Side] = ["pruned"]
        if question.pictures and self.study.dense:
            sides.append("dense")
            self.order.shuffle(sides)
        answers: dict[Side, Answer] = {}
        retention = None
        for side in sides:
            pruned = side == "pruned" and bool(question.pictures)
            with prune(self.llm, self.method) if pruned else nullcontext() as trace:
                answers[side] = self._generate(question, inputs)
            retention = trace.realised_retention if trace is not None else retention
        return AnsweredQuestion(
            task=question.task,
            document=question.document,
            picture=self._picture(question.pictures),
            retention=retention,
            dense_first=sides[0] == "dense" if len(sides) == 2 else None,
            dense=answers.get("dense", answers["pruned"]) if self.study.dense else None,
            pruned=answers["pruned"],
        )

    def _generate(self, question: Question, inputs: Inputs) -> Answer:
        """Return one answer of the model in its present state, pruned or dense."""
        generated: list[torch.Tensor] = []
        model: Any = self.llm
        tokenizer: Any = getattr(self.processor, "tokenizer", self.processor)

        def generate() -> None:
            # A checkpoint may set a temperature, but greedy answers have none.
            generated.append(
                model.generate(
                    **inputs,
                    max_new_tokens=question.most_new_tokens,
                    do_sample=False,
                    num_beams=1,
                    temperature=None,
                    top_p=None,
                    top_k=None,
                    pad_token_id=padding(self.processor),
                )
            )

        times = timed(model, self.adapter, generate, self.clock)
        new = generated[0][0, inputs["input_ids"].shape[1] :]
        text = tokenizer.decode(new, skip_special_tokens=True)
        for end in question.until:
            text = text.partition(end)[0]
        return Answer(
            text=text.strip(),
            tokens=len(new),
            prefill_ms=times.prefill_ms,
            ttft_ms=times.ttft_ms,
            total_ms=times.total_ms,
        )


class _Tasks(TaskManager):
    """The tasks of a study. They are loaded once and may be scored several times.

    names: names of the tasks.
    path: a directory with further tasks; None without one.
    Raises StudyError if a task does not exist.
    """

    def __init__(self, names: Sequence[str], path: Path | None):
        self.names = tuple(dict.fromkeys(names))
        self._loaded: dict[Any, Any] | None = None
        if path is not None and not path.is_dir():
            raise StudyError(f"task path {str(path)!r} is no directory; name one that holds YAML files of tasks")
        super().__init__(include_path=None if path is None else str(path))
        for name in self.names:
            if name not in self.all_tasks:
                near = get_close_matches(name, self.all_tasks, 3)
                hint = f"did you mean {' or '.join(near)}?" if near else "--task-path DIR adds tasks of your own"
                raise StudyError(f"lmms-eval has no task {name!r}; {hint}")

    def load_task_or_group(self, task_list: Any = None, task_type: Any = "simple") -> dict[Any, Any]:
        """Return the tasks with their data.

        Raises StudyError if a task cannot be loaded, or if it does not generate text.
        """
        if self._loaded is not None:
            return self._loaded
        try:
            loaded: dict[Any, Any] = super().load_task_or_group(task_list, task_type)
        # A task may raise any error while it is loaded.
        except Exception as error:
            cause = error.__cause__ or error  # lmms-eval wraps the error when it tries again
            raise StudyError(f"tasks {', '.join(self.names)} cannot be loaded: {first_line(cause)}") from error
        for task in _leaves(loaded):
            if task.OUTPUT_TYPE != "generate_until":
                raise StudyError(
                    f"task {task.config.task!r} is of the kind {task.OUTPUT_TYPE!r}; only generate_until can be run"
                )
        self._loaded = loaded
        return loaded


def _leaves(tasks: Mapping[Any, Any]) -> Iterator[Any]:
    """Yield the single tasks of nested groups."""
    for task in tasks.values():
        if isinstance(task, Mapping):
            yield from _leaves(task)
        else:
            yield task


def _require_greedy(task: str, options: Mapping[str, Any]) -> None:
    """Raise StudyError if a task wants random answers or a beam search. Only greedy answers can be compared."""
    if options.get("do_sample", True) and float(options.get("temperature") or 0) > 0:
        raise StudyError(
            f"task {task!r} draws its answers (temperature {options['temperature']}); only greedy answers can be run"
        )
    if int(options.get("num_beams") or 1) > 1:
        raise StudyError(f"task {task!r} searches with {options['num_beams']} beams; only greedy answers can be run")
