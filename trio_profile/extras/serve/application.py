"""The application: transformers' handler of chat completions, joined with our model and with `prune`.

transformers runs the generations of a model one after another, on one thread. It takes the checkpoint's own chat
template, streams, and makes the answers in OpenAI's form [transformers 5.23, `transformers/cli/serving`]. Here it gets
the model that we loaded, reads no file and fetches nothing, and reports the tokens that ran.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from jinja2 import TemplateError
from openai.types.completion_usage import CompletionUsage, PromptTokensDetails
from transformers import PreTrainedModel
from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.serving.server import build_server
from transformers.cli.serving.utils import GenerationState, Modality

from trio_core.errors import TrioError
from trio_core.methods.method import Method
from trio_profile.errors import ProfileError
from trio_profile.extras.serve.generation import Generation, Stopped, Turns, positions_of
from trio_profile.extras.serve.request import LimitedBodies, Refused, pictures_of, read
from trio_profile.text import first_line

PATHS = ("/v1/chat/completions", "/v1/models", "/health")
"""The paths that are served. transformers has more, which would run past `prune`."""
LONGEST_WAIT = 30
"""Seconds that a server which stops waits for the generation that runs. It ends at its next token."""
_THEIR_FAULT = (TrioError, ProfileError, TemplateError, ValueError, TypeError, LookupError, AttributeError, ImportError)
"""Errors of a request: an odd value, a feature that is not installed. Any other error is a fault of the server."""


@dataclass(frozen=True)
class Served:
    """The model of a server. It stands in for transformers' ModelManager, which would load models by their names.

    name: of the model, as requests give it.
    model: in evaluation mode, on its device.
    processor: with a chat template.
    method: None serves the dense model.
    turns: of the requests.
    """

    name: str
    model: PreTrainedModel
    processor: Any
    method: Method | None
    turns: Turns = field(default_factory=Turns)

    def get_gen_models(self) -> list[dict[str, Any]]:
        """The list of models, in OpenAI's form."""
        return [{"id": self.name, "object": "model", "created": int(time.time()), "owned_by": "trio-profile"}]

    def get_model_modality(self, *_: object, **__: object) -> Modality:
        """Every model here reads pictures and text."""
        return Modality.VLM

    def shutdown(self) -> None:
        """Stop, and wait for the generation that runs: Python cannot end while it does. transformers calls this."""
        self.turns.stop()
        self.turns.wait(LONGEST_WAIT)


def application(served: Served) -> FastAPI:
    """The application that answers chat completions with the served model."""
    state, nobody = GenerationState(), cast(Any, None)

    class Chat:
        """Gives each request a handler of its own, so that requests share nothing but the model's thread."""

        async def handle_request(self, body: dict[str, Any], request_id: str) -> Any:
            return await ChatRequest(served, state).handle_request(body, request_id)

    app = build_server(cast(ModelManager, served), cast(Any, Chat()), nobody, nobody, nobody, nobody, state)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in PATHS]
    app.add_middleware(LimitedBodies)
    return app


class ChatRequest(ChatCompletionHandler):
    """The handler of one chat completion.

    `usage.prompt_tokens` is what ran: the text tokens and the kept visual tokens, averaged over the decoder's layers
    and rounded. It comes from pruning's trace, not from a plan. `usage.prompt_tokens_details` has its two parts,
    `text_tokens` and `image_tokens`, and also `image_tokens_before`, the visual tokens before pruning, and `retention`,
    the realised retention. `notes` are those of pruning's trace, if it has any: how it differs from what was asked.
    """

    def __init__(self, served: Served, state: GenerationState):
        super().__init__(cast(ModelManager, served), state)
        self.served = served
        self.generation = Generation(served.model, served.method, served.turns)

    async def handle_request(self, body: dict[str, Any], request_id: str) -> Any:
        """Answer a request. Raises HTTPException, with one line, for every request that cannot be answered."""
        try:
            checked = read(body, positions_of(self.served.model))
            # transformers would set the seed now, while another request may be running.
            self.generation.seed = checked.seed
            response = await super().handle_request(checked.passed_on() | {"seed": None}, request_id)
            if isinstance(response, StreamingResponse):
                await self._wait_for_a_token(response)
            return response
        except HTTPException:
            raise
        except Refused as error:
            raise HTTPException(error.status, str(error)) from error
        except Exception as error:
            if isinstance(error, _THEIR_FAULT):
                raise HTTPException(400, first_line(error)) from error
            if isinstance(error, Stopped):
                raise HTTPException(503, first_line(error)) from error
            raise HTTPException(500, f"{type(error).__name__}: {first_line(error)}") from error

    async def _wait_for_a_token(self, response: StreamingResponse) -> None:
        """Hold a stream back until its first token, because its status cannot change after it began.

        Raises what the generation raised before.
        """
        pieces = aiter(response.body_iterator)
        first = [await anext(pieces), await anext(pieces)]  # the role comes before any token
        if self.generation.fault is not None:
            raise self.generation.fault

        async def all_pieces() -> AsyncIterator[Any]:
            for piece in first:
                yield piece
            async for piece in pieces:
                yield piece

        response.body_iterator = all_pieces()

    def _resolve_model(self, body: dict[str, Any]) -> tuple[str, Any, Any]:
        """The name, the model and the processor. A request may leave the name out."""
        name = body.get("model", self.served.name)
        if name != self.served.name:
            raise HTTPException(404, f"model {name!r} is not served; this server has {self.served.name!r}")
        return self.served.name, self.generation, self.served.processor

    @staticmethod
    def get_processor_inputs_from_messages(messages: list[dict[str, Any]], modality: Modality) -> list[dict[str, Any]]:
        """The messages as a processor takes them, with their pictures read.

        Raises StudyError for a picture that cannot be read.
        """
        taken = ChatCompletionHandler.get_processor_inputs_from_messages(messages, modality)
        urls = [part["url"] for message in taken for part in message["content"] if part["type"] == "image"]
        pictures = iter(pictures_of(urls))
        for message in taken:
            message["content"] = [
                {"type": "image", "image": next(pictures)} if part["type"] == "image" else part
                for part in message["content"]
            ]
        return taken

    def _build_completion(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return super()._build_completion(*arguments, **{**named, "usage": self._usage(named.get("usage"))})

    def _build_chunk_sse(self, *arguments: Any, **named: Any) -> str:
        return super()._build_chunk_sse(*arguments, **{**named, "usage": self._usage(named.get("usage"))})

    def _usage(self, usage: CompletionUsage | None) -> CompletionUsage | None:
        """transformers' usage, with the tokens that ran in place of the tokens that came in."""
        ran = self.generation.prompt
        if usage is None or ran is None:
            return usage
        details: dict[str, Any] = {
            "text_tokens": ran.text,
            "image_tokens": ran.kept,
            "image_tokens_before": ran.visual,
            "retention": ran.retention,
        }
        if ran.notes:
            details["notes"] = list(ran.notes)
        return CompletionUsage(
            prompt_tokens=ran.total,
            completion_tokens=usage.completion_tokens,
            total_tokens=ran.total + usage.completion_tokens,
            prompt_tokens_details=PromptTokensDetails.model_validate(details),
        )
