"""The tasks of a study and its cells, in the form in which lmms-eval takes them.

Only this file imports lmms-eval, which needs the extra `eval`. The cells are a chat model of lmms-eval: a task that
makes messages (`doc_to_messages`) is asked in them. Of any other task the pictures come first, then the text with the
task's description and examples.
"""

import json
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
from trio_profile.kinds.evaluation.answers import DENSE, AnsweredQuestion, AnswerStore, key_of
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

    def makes_messages(self, name: str) -> bool:
        """Return whether a task has messages of its own."""
        return any(
            task.config.task == name and task.config.doc_to_messages is not None for task in _leaves(self._loaded or {})
        )


class Model(lmms):
    """All cells of a study and the dense model, as one chat model of lmms-eval.

    The first time that lmms-eval asks, all rows answer each question. It gets the answers of the row that is being
    scored. The rows that are scored later answer from memory.

    answerer: answers the questions.
    store: holds the answers.
    tasks: the tasks.
    watch: called with each step.
    """

    is_simple = False

    def __init__(self, answerer: Answerer, store: AnswerStore, tasks: Tasks, watch: Watch = ignore):
        super().__init__()
        self.answerer, self.store, self.tasks, self.watch = answerer, store, tasks, watch
        self.row = DENSE
        self.answers: dict[tuple[str, str, int, str], AnsweredQuestion] = {}
        self._options = SimpleNamespace(output_path=None, process_with_media=True)
        self._submissions = Path()
        self._is_asked = False

    def score(self, row: str, submissions: Path, limit: int | None, seed: int) -> tuple[str, Results]:
        """Return lmms-eval's results for the answers of one row, and the row.

        row: `dense` or the id of a cell. If the cell is refused while it answers, another row is scored.
        submissions: a directory for the files that tasks write. Each row has a directory in it.
        Raises StudyError if the code of a task, or lmms-eval, fails.
        """
        self.row, self._submissions = row, submissions
        # lmms-eval prints, but standard output is only for the document.
        with redirect_stdout(sys.stderr):
            try:
                results = simple_evaluate(
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
        return self.row, results

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return the scored row's answer to each request. A new question is first answered by all rows."""
        self._is_asked = True
        for request in requests:
            _require_greedy(request.args[4], request.args[2])
        answered: list[AnsweredQuestion] = []
        for number, request in enumerate(requests):
            context, _, _, document, task, split = request.args
            key = (task, split, document, context)
            if key not in self.answers:
                self.watch(Step(f"{task}: {number} of {len(requests)} questions", number, len(requests)))
                self.answers[key] = self._answered(*request.args)
            answered.append(self.answers[key])
        if self.row not in self.answerer.rows:
            self.row = self.answerer.rows[0]
        self._options.output_path = str(self._submissions / self._name())
        self.watch(Step(f"scoring {self._name()}", len(requests), len(requests)))
        self._is_asked = False
        return [answer.text for question in answered if (answer := question.answer_of(self.row)) is not None]

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Raise StudyError. The prompt contains the answer, so the answer would influence the selection."""
        raise StudyError(f"task {requests[0].args[4]!r} asks for likelihoods; only tasks that generate text can be run")

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Raise StudyError. A later round would start with a KV cache that pruning has shortened."""
        raise StudyError(f"task {requests[0].args[-2]!r} has several rounds; only tasks with one answer can be run")

    def clean(self) -> None:
        """Keep the model. lmms-eval calls this after each scoring."""

    def _name(self) -> str:
        """Return the scored row as the name of a directory: `dense`, `trio-0.111`, `trio-k_pos=1-0.111`."""
        for planned in self.answerer.cells:
            if planned.cell.id == self.row:
                options = [f"{name}={value}" for name, value in planned.cell.options.items()]
                name = "-".join([planned.cell.method, *options, f"{planned.cell.retention:g}"])
                return "".join(sign if sign.isalnum() or sign in "-_.=" else "_" for sign in name)
        return self.row

    def _answered(
        self, context: str, to_messages: Any, options: Mapping[str, Any], document: int, task: str, split: str
    ) -> AnsweredQuestion:
        """Return the answers to the question of a request: those of the store, or new ones."""
        until = options.get("until") or ()
        most_new_tokens = int(options.get("max_new_tokens") or MOST_NEW_TOKENS)
        ends = tuple(filter(None, [until] if isinstance(until, str) else until))
        made: list[Any] | None = None
        if own := self.tasks.makes_messages(task):
            made = _messages_of(task, to_messages, self.task_dict[task][split][document], document)
        text = _texts(made) if made is not None else context
        prompt = sha256(json.dumps([text, most_new_tokens, ends]).encode()).hexdigest()[:16]
        known = self.store.contents.questions.get((task, split, document, prompt))
        if known is not None and self._is_complete(known):
            return known
        if made is None:
            made = _messages_of(task, to_messages, self.task_dict[task][split][document], document)
        messages, pictures = read_messages(task, made)
        if not own:
            content = ({"type": "image"},) * len(pictures) + ({"type": "text", "text": context.strip()},)
            messages = ({"role": "user", "content": content},)
        question = Question(task, split, document, prompt, messages, pictures, most_new_tokens, ends)
        answered = self.answerer.answer(question)
        self.store.append(answered)
        return self.store.contents.questions[key_of(answered)]

    def _is_complete(self, answered: AnsweredQuestion) -> bool:
        """Return whether every row has answered a question."""
        return all(answered.answer_of(row) is not None for row in self.answerer.rows)


def read_messages(task: str, made: Any) -> tuple[tuple[Message, ...], tuple[Image.Image, ...]]:
    """Return a task's messages without the pictures, and the pictures in their order.

    made: as `doc_to_messages` returns them. A picture is a PIL image or a path.
    Raises StudyError if they show anything but pictures.
    """
    messages: list[Message] = []
    pictures: list[Image.Image] = []
    for message in made or ():
        parts = message["content"]
        content: list[Message] = []
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            if part["type"] == "text":
                content.append({"type": "text", "text": part["text"]})
                continue
            if part["type"] != "image":
                raise StudyError(f"task {task!r} shows {_a(part['type'])}; only pictures can be asked about")
            content.append({"type": "image"})
            pictures.append(_picture(task, part.get("url", part.get("image"))))
        messages.append({"role": message["role"], "content": tuple(content)})
    if not messages:
        raise StudyError(f"task {task!r} makes a question without a message")
    return tuple(messages), tuple(pictures)


def _messages_of(task: str, to_messages: Any, question: Any, document: int) -> list[Any]:
    """Return the messages that a task, or lmms-eval for it, makes of a question.

    document: number of the question.
    Raises StudyError if they cannot be made, or are no messages.
    """
    try:
        made = [dict(message) for message in to_messages(question) or ()]
        _texts(made)
    # The code of a task may raise any error.
    except Exception as error:
        raise StudyError(f"document {document} of task {task!r} makes no messages: {_first_words(error)}") from error
    return made


def _picture(task: str, picture: Any) -> Image.Image:
    if isinstance(picture, str):
        return open_picture(picture)
    if not isinstance(picture, Image.Image):
        raise StudyError(f"task {task!r} shows {_a(type(picture).__name__)}; only pictures can be asked about")
    try:
        return on_white(picture)
    except ValueError as error:
        raise StudyError(f"task {task!r} shows a picture with {error}") from error


def _texts(made: Sequence[Any]) -> list[Any]:
    """Return what messages say, with the kind of each part, without the pictures."""
    return [
        (message["role"], [[part["type"], part.get("text", "")] for part in message["content"]])
        if not isinstance(message["content"], str)
        else (message["role"], message["content"])
        for message in made
    ]


def _first_words(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


def _a(noun: str) -> str:
    """Return a noun with its indefinite article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


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
