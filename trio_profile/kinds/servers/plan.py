"""The plan of `endpoints`: the checked study, and the order of its segments. No client is needed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.inputs.questions import require_file
from trio_profile.kinds.servers.document import EndpointsPreview
from trio_profile.kinds.servers.questions import questions_of
from trio_profile.kinds.servers.requests import ARMS, Arm
from trio_profile.kinds.servers.study import EndpointStudy, Load, base_of
from trio_profile.kinds.servers.traffic.pictures import Pictures
from trio_profile.kinds.servers.traffic.segment import Limits
from trio_profile.progress import Watch, ignore
from trio_profile.reading import parse_json
from trio_profile.stats.orders import balanced_orders

CONCURRENCY = (1, 2, 4, 8, 16, 32)
"""The loads of a study that names none."""
MOST_PICTURES = 20_000
"""The most pictures, or frames of videos, of a segment. All are made before it begins, and stay in memory."""
LEAST_ARRIVALS = 10
"""The least number of requests that arrive in a segment of the open loop, on average. Of fewer, none may arrive."""
_FIELDS = {"messages", "stream", "stream_options", "model", "max_tokens", "max_completion_tokens", "temperature"}
"""Fields of a request that a study sets itself."""


@dataclass(frozen=True)
class PlannedPair:
    """Two segments that are measured one after the other: `arms` are in the order of measurement."""

    load: Load
    round: int
    arms: tuple[Arm, Arm]


def prepare(study: EndpointStudy) -> EndpointStudy:
    """Return the study with its loads. Raises StudyError for servers, fields or loads that cannot be asked."""
    if not study.dense:
        raise StudyError("no server is named: give --dense URL, and --pruned URL or --pruned-body JSON")
    dense, pruned = study.dense.rstrip("/"), study.pruned and study.pruned.rstrip("/")
    _require_address("--dense", dense)
    if pruned is not None:
        _require_address("--pruned", pruned)
    _require_fields("--body", study.body)
    _require_fields("--pruned-body", study.pruned_body)
    if pruned is None or base_of(dense) == base_of(pruned):
        pruned = None
        if not study.pruned_body or parse_json(study.pruned_body) == {}:
            raise StudyError(
                "dense and pruned are the same server with the same requests: give --pruned URL, or --pruned-body JSON "
                "with the field that turns pruning on"
            )
    concurrency = study.concurrency
    if concurrency is None:
        concurrency = () if study.rates else CONCURRENCY
    if not concurrency and not study.rates:
        raise StudyError("there is no load: give --concurrency, --rate or both")
    if study.questions is not None:
        require_file(Path(study.questions))
    checked = study.model_copy(update={"dense": dense, "pruned": pruned, "concurrency": concurrency})
    for load in checked.loads:
        _require_load(checked, load)
    return checked


def planned_pairs(study: EndpointStudy) -> Iterator[PlannedPair]:
    """Yield the pairs in the order of measurement.

    Each round has all loads in an order of its own. At each load, dense comes first in half of the rounds; with an odd
    number of rounds, one arm comes first once more.
    """
    loads = study.loads
    orders = [balanced_orders(f"{study.seed} {number}") for number in range(len(loads))]
    draw = random.Random(study.seed)
    for number in range(study.rounds):
        places = [next(order) for order in orders]
        for index in draw.sample(range(len(loads)), len(loads)):
            first, second = places[index]
            yield PlannedPair(loads[index], number, (ARMS[first], ARMS[second]))


def limits_of(study: EndpointStudy) -> Limits:
    """Return when a segment ends."""
    return Limits(study.requests, study.segment_seconds)


def most_requests(study: EndpointStudy) -> int:
    """Return how many requests the study may send, apart from those that open the servers."""
    return 2 * study.rounds * sum(limits_of(study).most(load) for load in study.loads)


def preview(study: EndpointStudy, watch: Watch = ignore) -> EndpointsPreview:  # noqa: ARG001
    """Return how much the study would send at most. Nothing is sent.

    Raises StudyError if --pictures has too few, or if --questions cannot be used.
    """
    if study.pictures is not None:
        Pictures(Path(study.pictures), study.prompt, frames=study.frames, needed=most_requests(study))
    return EndpointsPreview(
        environment=host.without_torch(),
        study=study,
        segments=2 * study.pairs,
        requests=most_requests(study),
        questions=len(questions_of(study)),
        seconds=ceil(2 * study.pairs * 2 * study.segment_seconds),  # each segment warms up and is measured
    )


def _require_load(study: EndpointStudy, load: Load) -> None:
    """Raise StudyError for a load at which there may be nothing to measure, or that needs too many pictures."""
    arrivals = load.value * study.segment_seconds
    if load.loop == "open" and arrivals < LEAST_ARRIVALS:
        raise StudyError(
            f"{load.name}: in {study.segment_seconds:g} seconds about {arrivals:.2g} requests arrive, and a segment "
            f"needs {LEAST_ARRIVALS}: give --seconds {ceil(LEAST_ARRIVALS / load.value)} or more"
        )
    most = limits_of(study).most(load) * study.frames
    if most > MOST_PICTURES:
        raise StudyError(
            f"{load.name} needs {most} pictures or frames in a segment, and at most {MOST_PICTURES} are kept ready; "
            "ask for fewer --requests, --seconds or --frames, or for lower loads"
        )


def _require_address(option: str, url: str) -> None:
    """Raise StudyError unless a text is the address of a server, without a secret in it."""
    try:
        parts = urlsplit(url)
        port, name = parts.port, parts.hostname
    except ValueError as error:
        raise StudyError(f"{option} {url!r} is no address: {error}; give one such as http://localhost:8000") from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise StudyError(
            f"{option} to the host {name}: an address is kept in the study, so it takes no name, password or query; "
            "give a key with --key-variable NAME"
        )
    if parts.scheme not in ("http", "https") or not name or port == 0:
        raise StudyError(f"{option} {url!r} is no address of a server; give one such as http://localhost:8000")


def _require_fields(option: str, text: str | None) -> None:
    """Raise StudyError unless a text is a JSON object of fields that a user may set. None is allowed."""
    if text is None:
        return
    try:
        fields: Any = parse_json(text, unique=True)
    except ValueError as error:
        raise StudyError(f"{option} {text!r} is not JSON: {error}; give such as '{{\"top_k\": 1}}'") from error
    if not isinstance(fields, dict):
        raise StudyError(f"{option} {text!r} is no JSON object; give one such as '{{\"top_k\": 1}}'")
    if taken := sorted(_FIELDS & set(fields)):
        raise StudyError(f"{option} {text!r}: the study sets {taken[0]} itself; leave it out")
