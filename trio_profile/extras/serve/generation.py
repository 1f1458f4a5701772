"""The generation of one request: `generate` inside `prune`, and the number of tokens that the decoder ran on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, StoppingCriteriaList
from transformers.cli.serving.utils import _GenerationCancelled

from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.pruning import prune
from trio_core.trace import Trace
from trio_profile.errors import StudyError
from trio_profile.text import first_line


@dataclass(frozen=True)
class PromptTokens:
    """The tokens of a prompt on which the decoder ran.

    text: tokens that are no visual tokens.
    visual: visual tokens before pruning.
    kept: visual tokens that the decoder's layers ran on, averaged over the layers and rounded.
    retention: kept visual tokens as a share of all, averaged over the layers, without rounding.
    notes: of pruning's trace: what differs from what was asked.
    """

    text: int
    visual: int
    kept: int
    retention: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Text tokens and kept visual tokens. The KV cache holds this many for the prompt, averaged over the layers."""
        return self.text + self.kept


class Stopped(RuntimeError):
    """The server stops, so the generation of a request ends."""


class Turns:
    """Lets one generation run at a time, until the server stops."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stop = Event()

    @contextmanager
    def next(self) -> Iterator[None]:
        """Wait until no other generation runs, and keep the others waiting. Raises Stopped if the server stops."""
        with self._lock:
            self.check()
            yield

    def check(self) -> None:
        """Raise Stopped if the server stops."""
        if self._stop.is_set():
            raise Stopped("the server stops")

    def stop(self) -> None:
        """Let the running generation end at its next token, and those that wait at once. Returns immediately."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Wait until no generation runs, but no longer than this."""
        if self._lock.acquire(timeout=seconds):
            self._lock.release()


def positions_of(model: PreTrainedModel) -> int | None:
    """Return the longest sequence of a model in tokens; None if its configuration does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


class Generation:
    """The served model as one request sees it. Its `generate` prunes. Every other attribute is the model's.

    Each request has a context of `prune` of its own. So an error is raised in the request that caused it, and nothing
    of a request reaches the next one. A model can have one such context at a time, so the requests take turns.

    model: in evaluation mode.
    method: None runs the dense model.
    turns: those of all requests to this model.
    seed: of the random draws of this request; None leaves the generator as it is.
    prompt: the tokens that the decoder ran on; None before `generate` has finished.
    fault: what a streamed `generate` raised; None if it did not.
    """

    def __init__(self, model: PreTrainedModel, method: Method | None, turns: Turns, seed: int | None = None):
        self.model = model
        self.method = method
        self.turns = turns
        self.seed = seed
        self.prompt: PromptTokens | None = None
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def generate(self, *, streamer: Any = None, tokenizer: Any = None, **inputs: Any) -> Tensor:
        """Generate as the model does, pruned. Returns [1, S], the prompt's ids and the new ones.

        inputs: those of the model's own `generate`, with one prompt.
        streamer: its `end` is called last, when `prompt` is known and pruning has raised all its errors.
        tokenizer: a tokenizer, or a processor that has one.

        Raises Stopped, and what `prune` and the model raise.
        """
        inputs["tokenizer"] = getattr(tokenizer, "tokenizer", tokenizer)
        inputs["stopping_criteria"] = StoppingCriteriaList([self._criterion])  # pyright: ignore[reportArgumentType]
        if streamer is None:
            return self._pruned(inputs)
        try:
            made = self._pruned({**inputs, "streamer": _WithoutEnd(streamer)})
        except _GenerationCancelled:  # the client is gone
            raise
        except Exception as error:
            self.fault = error
            # transformers writes the message between quotation marks
            raise RuntimeError(json.dumps(first_line(error))[1:-1]) from error
        streamer.end()
        return made

    def _require_room(self, prompt: int, config: Any) -> None:
        """Shorten the answer to the positions that the prompt leaves. Raises StudyError if it leaves none."""
        positions = positions_of(self.model)
        if positions is None:
            return
        if prompt >= positions:
            raise StudyError(
                f"the prompt has {prompt} tokens, and the model {positions} positions: shorten the request"
            )
        if config is not None:
            config.max_new_tokens = min(config.max_new_tokens or positions, positions - prompt)

    def _pruned(self, inputs: dict[str, Any]) -> Tensor:
        self._require_room(inputs["input_ids"].shape[1], inputs.get("generation_config"))
        with self.turns.next():
            if self.seed is not None:
                torch.manual_seed(self.seed)
            with nullcontext() if self.method is None else prune(self.model, self.method) as trace:
                made: Any = self.model.generate(**inputs)  # pyright: ignore[reportCallIssue]
            self.prompt = self._tokens(inputs["input_ids"], trace)
        return made

    def _criterion(self, ids: Tensor, _scores: Any, **_: Any) -> Tensor:
        """A criterion of `generate`, asked after each token. It stops no sample, and raises if the server stops."""
        self.turns.check()
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    def _tokens(self, input_ids: Tensor, trace: Trace | None) -> PromptTokens:
        """The work that ran, read from the trace. The dense model ran on all tokens. Beams are copies of one prompt."""
        length = input_ids.shape[1]
        if trace is None:
            visual = int(adapter_for(self.model).visual_tokens(input_ids).sum())
            return PromptTokens(length - visual, visual, visual)
        visual = trace.visual_tokens[0] if trace.visual_tokens else 0
        retention = trace.realised_retention
        return PromptTokens(length - visual, visual, round(visual * retention), retention, trace.notes)


class _WithoutEnd:
    """A streamer whose end is left to somebody else."""

    def __init__(self, streamer: Any):
        self.put = streamer.put

    def end(self) -> None:
        """Nothing: the owner ends the streamer."""
