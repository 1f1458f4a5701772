"""Open the servers of a study: which model they have, and whether they stream, take pictures and answer at all.

Each server gets two requests: one with text alone and one with a picture. Both servers get the same picture, so the
numbers of tokens that they report can be compared.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from trio_profile.errors import StudyError
from trio_profile.kinds.servers.requests import ARMS, Arm, ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.traffic.pictures import Picture
from trio_profile.kinds.servers.traffic.server import Server
from trio_profile.kinds.servers.traffic.stream import Body, Reply
from trio_profile.reading import parse_json

_WAYS_OUT = {
    None: "start it, or correct its address",
    **dict.fromkeys((401, 403), "give its key with --key-variable NAME"),
    404: "give the base address of the server, such as http://localhost:8000, and the name of a model that it has",
    **dict.fromkeys((301, 302, 303, 307, 308), "give the address to which it redirects"),
    429: "the server refuses so many requests; ask for less",
}
"""By the status of a reply; None without an answer."""
_UNLISTED = (400, 404, 405)
"""Statuses of a server that answers, but lists no models."""
_A_FEW = 4
"""A dense picture has at least this many tokens. A prompt that grows by fewer does not contain it."""


@dataclass(frozen=True)
class ArmServer:
    """One arm of a study: a server, and what each request asks of it.

    name: of the arm, with the address, for errors.
    model: the model that is asked.
    fields: further fields of each request.
    owner: of the model, as the server says it.
    """

    arm: Arm
    server: Server
    name: str
    model: str
    new_tokens: int
    fields: Body
    owner: str = ""

    def body(self, picture: Picture, *, alone: bool = False) -> Body:
        """Return the fields of a request: a picture with its question. alone: the question without the picture."""
        text = {"type": "text", "text": picture.prompt}
        parts = [] if alone else [{"type": picture.kind, picture.kind: {"url": picture.url}}]
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": [*parts, text]}],
            "max_tokens": self.new_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.fields,
        }


@asynccontextmanager
async def open_arms(study: EndpointStudy, key: str | None) -> AsyncIterator[dict[Arm, ArmServer]]:
    """Yield the two arms of a study, whose connections are closed at the end.

    key: of both servers; None for none.
    Raises StudyError if a server cannot be reached, if it is not clear which model to ask, or if the two have different
    models.
    """
    arms: dict[Arm, ArmServer] = {}
    async with AsyncExitStack() as stack:
        for arm in ARMS:
            url = study.pruned if arm == "pruned" and study.pruned is not None else study.dense
            server = await stack.enter_async_context(Server(url, key, study.timeout_seconds))
            name = f"the {arm} server {url}"
            models, reply = await server.models()
            if reply.error is not None and reply.status not in _UNLISTED:
                raise StudyError(_failed(name, reply))
            model = study.model or _only(name, models)
            if models and model not in models:
                raise StudyError(f"{name} has no model {model!r}; it lists {', '.join([*models][:5])}")
            bodies = (study.body, study.pruned_body if arm == "pruned" else None)
            fields = {field: value for body in bodies if body for field, value in parse_json(body).items()}
            arms[arm] = ArmServer(arm, server, name, model, study.new_tokens, fields, owner=models.get(model, ""))
        dense, pruned = arms["dense"].model, arms["pruned"].model
        if dense != pruned:
            raise StudyError(
                f"the two servers have different models: {dense!r} (dense) and {pruned!r} (pruned); serve one model "
                "under one name"
            )
        yield arms


async def try_arm(arm: ArmServer, picture: Picture) -> ServerFacts:
    """Send a request with text alone and one with a picture, and return what the server says of itself.

    Raises StudyError if it refuses the picture, does not stream, or does not answer.
    """
    reply = await arm.server.ask(arm.body(picture))
    text = await arm.server.ask(arm.body(picture, alone=True))
    if reply.error is not None:
        if text.error is None:
            raise StudyError(
                f"{arm.name} answers text, but no picture: {reply.error}; serve a model that sees pictures"
            )
        raise StudyError(_failed(arm.name, reply))
    names = (arm.owner, reply.stream.engine, reply.software)  # vLLM's header says `uvicorn`
    facts = ServerFacts(
        arm=arm.arm,
        model=arm.model,
        software=", ".join(dict.fromkeys(filter(None, names)))[:100],
        text_tokens=None if text.error is not None else text.stream.prompt_tokens,
        prompt_tokens=reply.stream.prompt_tokens,
    )
    alone, whole = facts.text_tokens, facts.prompt_tokens
    least = _A_FEW if arm.arm == "dense" else 1  # pruning may leave a single token
    if alone is not None and whole is not None and whole - alone < least:
        raise StudyError(
            f"{arm.name} seems to ignore pictures: it reports {whole} prompt tokens with a picture, {alone} without; "
            "serve a model that sees pictures"
        )
    return facts


def _failed(name: str, reply: Reply) -> str:
    """Return the line for a request that failed: the server, the reason and the way out.

    name: of the server.
    """
    return f"{name}: {reply.error}; {_WAYS_OUT.get(reply.status, 'look into its log')}"


def _only(name: str, models: Collection[str]) -> str:
    """Return the only model of a server. Raises StudyError if it lists none or several."""
    if len(models) == 1:
        return next(iter(models))
    fault = f"lists {len(models)} models" if models else "does not say which model it has"
    raise StudyError(f"{name} {fault}; name one with --model")
