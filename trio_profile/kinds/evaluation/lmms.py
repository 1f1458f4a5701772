"""The tasks of a study and its cells, in the form in which lmms-eval takes them.

Only this file imports lmms-eval, which needs the extra `eval`. The cells are a chat model of lmms-eval: a task that
makes messages (`doc_to_messages`) is asked in them. Of any other task the pictures come first, then the text with the
task's description and examples.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lmms_eval.api.model import lmms  # pyright: ignore[reportMissingImports]
from lmms_eval.evaluator import simple_evaluate  # pyright: ignore[reportMissingImports]
from lmms_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]
from PIL import Image

from trio_profile.errors import ProfileError, StudyError
from trio_profile.inputs.chat import Message
from trio_profile.inputs.questions import on_white, open_picture
from trio_profile.kinds.evaluation.answering import Answerer, Question
from trio_profile.kinds.evaluation.answers import DENSE, AnsweredQuestion
from trio_profile.kinds.evaluation.question_scores import Results
from trio_profile.progress import Step, Watch, ignore
from trio_profile.text import first_line

MOST_NEW_TOKENS = 1024
"""The longest answer in tokens, if the task sets no limit. [lmms-eval's limit for LLaVA]."""


class Tasks(TaskManager):
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

    def load_task_or_group(self, task_list: Any = None, task_type: Any = "chat") -> dict[Any, Any]:
        """Return the tasks with their data.

        Raises StudyError if a task cannot be loaded, or if it does not generate text.
        """
        if self._loaded is None:
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
        return self._loaded


class Model(lmms):
    """All cells of a study and the dense model, as one chat model of lmms-eval.

    The first time that lmms-eval asks, all rows answer each question. It gets the answers of the row that is being
    scored. The rows that are scored later answer from memory.

    answerer: answers the questions.
    tasks: the tasks.
    watch: called with each step.
    answers: the answers so far, by document, task and split.
    """

    is_simple = False

    def __init__(self, answerer: Answerer, tasks: Tasks, watch: Watch = ignore):
        super().__init__()
        self.answerer, self.tasks, self.watch = answerer, tasks, watch
        self.answers: dict[tuple[int, str, str], AnsweredQuestion] = {}
        self._row = DENSE
        self._options = SimpleNamespace(output_path=None, process_with_media=True)
        self._is_asked = False

    def score(self, submissions: Path, limit: int | None, seed: int) -> dict[str, Results]:
        """Return lmms-eval's results for the answers of each row that can run, by `dense` or the id of the cell.

        submissions: a directory for the files that tasks write. Each row has a directory in it.
        Raises StudyError if the code of a task, or lmms-eval, fails.
        """
        self._submissions = submissions
        results: dict[str, Results] = {}
        while left := [row for row in self.answerer.rows if row not in results]:
            self._row = left[0]
            of_row = self._scored(limit, seed)
            results[self._row] = of_row  # of another row, if this one was refused while it answered
        return results

    def _scored(self, limit: int | None, seed: int) -> Results:
        # lmms-eval prints, but standard output is only for the document.
        with redirect_stdout(sys.stderr):
            try:
                return simple_evaluate(
                    self,
                    tasks=list(self.tasks.names),
                    task_manager=self.tasks,
                    limit=limit,
                    log_samples=True,
                    bootstrap_iters=0,
                    random_seed=seed,
                    numpy_random_seed=seed,
                    torch_random_seed=seed,
                    cli_args=self._options,
                )
            # A task may raise any error while it makes questions or scores answers.
            except Exception as error:
                if self._is_asked or isinstance(error, ProfileError):
                    raise
                names = ", ".join(self.tasks.names)
                raise StudyError(f"lmms-eval or the code of a task ({names}) fails: {_first_words(error)}") from error

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return the scored row's answer to each request. A new question is first answered by all rows."""
        self._is_asked = True
        for request in requests:
            _require_greedy(request.args[4], request.args[2])
        for number, request in enumerate(requests):
            place = request.args[3:]
            if place not in self.answers:
                self.watch(Step(f"{place[1]}: {number} of {len(requests)} questions", number, len(requests)))
                self.answers[place] = self._answered(*request.args)
        if self._row not in self.answerer.rows:
            self._row = self.answerer.rows[0]
        name = self._name()
        self._options.output_path = str(self._submissions / name)
        self.watch(Step(f"scoring {name}", len(requests), len(requests)))
        self._is_asked = False
        answers = [self.answers[request.args[3:]].answer_of(self._row) for request in requests]
        return [answer.text for answer in answers if answer is not None]

    def loglikelihood(self, requests: Sequence[Any]) -> Any:
        """Raise NotImplementedError. `Tasks` refuses such tasks: the prompt would contain the answer."""
        raise NotImplementedError

    generate_until_multi_round = loglikelihood  # a later round would start with a KV cache that pruning has shortened

    def clean(self) -> None:
        """Keep the model. lmms-eval calls this after each scoring."""

    def _name(self) -> str:
        """Return the scored row as the name of a directory: `dense`, `trio-0.111`, `trio-k_pos=1-0.111`."""
        cell = next((planned.cell for planned in self.answerer.cells if planned.cell.id == self._row), None)
        if cell is None:
            return self._row
        options = [f"{name}={value}" for name, value in cell.options.items()]
        return re.sub(r"[^\w.=-]", "_", "-".join([cell.method, *options, f"{cell.retention:g}"]))

    def _answered(
        self, context: str, to_messages: Any, options: Mapping[str, Any], document: int, task: str, split: str
    ) -> AnsweredQuestion:
        """Return the answers to the question of a request: those of the store, or new ones."""
        until = options.get("until") or ()
        ends = tuple(filter(None, [until] if isinstance(until, str) else until))
        most_new_tokens = int(options.get("max_new_tokens") or MOST_NEW_TOKENS)
        try:
            messages, unread = _read_messages(task, to_messages(self.task_dict[task][split][document]))
        except ProfileError:
            raise
        # The code of a task may raise any error.
        except Exception as error:
            raise StudyError(
                f"document {document} of task {task!r} makes no messages: {_first_words(error)}"
            ) from error
        if to_messages.__self__.config.doc_to_messages is None:
            # Messages that lmms-eval makes have neither the task's description nor its examples.
            content = (*[{"type": "image"}] * len(unread), {"type": "text", "text": context.strip()})
            messages = ({"role": "user", "content": content},)
        prompt = sha256(json.dumps([messages, most_new_tokens, ends]).encode()).hexdigest()[:16]
        known = self.answerer.store.contents.questions.get((task, split, document, prompt))
        if known is not None and None not in map(known.answer_of, self.answerer.rows):
            return known  # its pictures are not read
        pictures = tuple(_picture(task, picture) for picture in unread)
        return self.answerer.answer(Question(task, split, document, prompt, messages, pictures, most_new_tokens, ends))


def _read_messages(task: str, made: Any) -> tuple[tuple[Message, ...], list[Any]]:
    """Return a task's messages without the pictures, and the pictures in their order: PIL images or paths.

    made: as `doc_to_messages` returns them.
    Raises StudyError if they show anything but pictures.
    """
    messages: list[Message] = []
    pictures: list[Any] = []
    for message in made or ():
        parts = message["content"]
        content: list[Message] = []
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            if part["type"] == "text":
                content.append({"type": "text", "text": part["text"]})
                continue
            if part["type"] != "image":
                raise StudyError(f"task {task!r} shows {part['type']!r}; only pictures can be asked about")
            content.append({"type": "image"})
            pictures.append(part.get("url", part.get("image")))
        messages.append({"role": message["role"], "content": tuple(content)})
    if not messages:
        raise StudyError(f"task {task!r} makes a question without a message")
    return tuple(messages), pictures


def _picture(task: str, picture: Any) -> Image.Image:
    if isinstance(picture, str):
        return open_picture(picture)
    if not isinstance(picture, Image.Image):
        raise StudyError(f"task {task!r} shows {type(picture).__name__!r}; only pictures can be asked about")
    try:
        return on_white(picture)
    except ValueError as error:
        raise StudyError(f"task {task!r} shows a picture with {error}") from error


def _first_words(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


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
