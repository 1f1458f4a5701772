"""The kind `endpoints`: a dense and a pruned server under the same loads, in turn.

Each round measures each load once with either arm, one after the other, because two servers may share a device. Each
segment is kept as soon as it has ended (records/request_store.py), and a later session goes on from there. A pair of
which only one segment was measured is measured again.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path

from trio_profile.analysis.endpoint_loads import document_of
from trio_profile.analysis.endpoints import EndpointsDocument
from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.endpoint_study import EndpointStudy
from trio_profile.records.request_store import RequestStore
from trio_profile.records.requests import ARMS, Arm, Segment, ServerFacts
from trio_profile.studies.endpoint_plan import Part, PlannedPair, limits_of, most_requests, planned_pairs
from trio_profile.traffic.opening import ArmServer, open_arms, try_arm
from trio_profile.traffic.pictures import Pictures
from trio_profile.traffic.segment import Measured, run_segment
from trio_profile.traffic.server import Server


def run(study: EndpointStudy, directory: Path | None = None, watch: Watch = ignore) -> EndpointsDocument:
    """Measure the servers of a study under its loads.

    directory: each segment is written to `requests.jsonl` here when it has ended. Segments that it holds already are
        not measured again.
    watch: called with each step.
    Raises StudyError if a server cannot be reached, does not stream, takes no pictures, has another model than the
    other one or than before, or fails under a load. Raises StoreError if the directory holds another study.
    """
    store = RequestStore(directory, study, host.session(host.without_torch()))
    left = pairs_left(study, store)
    if left:
        asyncio.run(_measure(study, store, left, watch))
    return document_of(study, store.found)


def _require_one_model(store: RequestStore, facts: Sequence[ServerFacts]) -> None:
    """Raise StudyError if the servers have another model than in an earlier session."""
    for earlier in store.found.servers:
        now = next(one.model for one in facts if one.arm == earlier.arm)
        if now != earlier.model:
            raise StudyError(
                f"the servers have the model {now!r}, and an earlier session of this study asked {earlier.model!r}; "
                "choose another --out"
            )


def pairs_left(study: EndpointStudy, store: RequestStore) -> list[PlannedPair]:
    """Return the pairs that the store does not hold yet, in the order of measurement."""
    finished = {first.pair[:4] for first, _ in store.found.pairs()}
    return [pair for pair in planned_pairs(study) if pair.key not in finished]


async def _measure(study: EndpointStudy, store: RequestStore, left: list[PlannedPair], watch: Watch) -> None:
    """Open the servers and measure the pairs. Raises as `run` does."""
    key = _key(study.key_variable)
    pictures = pictures_of(study, store)
    async with AsyncExitStack() as stack:
        servers: dict[Arm, Server] = {
            arm: await stack.enter_async_context(Server(address_of(study, arm), key, study.timeout_seconds))
            for arm in ARMS
        }
        watch(Step("opening the servers"))
        arms = await open_arms(study, servers)
        shown = pictures.take()
        facts = [await try_arm(arm, shown) for arm in arms.values()]
        _require_one_model(store, facts)
        store.begin()
        store.add(facts)
        await measure_pairs(study, store, arms, pictures, left, watch)


async def measure_pairs(
    study: EndpointStudy,
    store: RequestStore,
    arms: Mapping[Arm, ArmServer],
    pictures: Pictures,
    left: list[PlannedPair],
    watch: Watch = ignore,
) -> None:
    """Measure pairs, and keep each segment. Raises StudyError if a server fails under a load."""
    for number, pair in enumerate(left):
        for place, part in enumerate(pair.parts):
            spent = study.segment_seconds * (2 * number + place)
            watch(Step(_step(pair, part, study.rounds), spent, study.segment_seconds * 2 * len(left)))
            await _measure_part(study, store, arms[part.arm], pictures, pair, place)


async def _measure_part(
    study: EndpointStudy, store: RequestStore, arm: ArmServer, pictures: Pictures, pair: PlannedPair, place: int
) -> None:
    """Measure one segment and keep it."""
    part, limits, number = pair.parts[place], limits_of(study), store.found.next_segment
    pictures.prepare(1 if part.repeated else limits.most(pair.load))
    store.use_pictures(pictures.next_number)
    if part.repeated:
        shown = pictures.take()
        bodies = iter(lambda: (shown.number, arm.body(shown)), None)
    else:
        bodies = arm.bodies(pictures.all())
    seed = f"{study.seed} {pair.round} {pair.load.value}"
    found = await run_segment(arm.server.ask, bodies, pair.load, limits, number=number, seed=seed)
    if found.failure is not None:
        store.add_segment(None, found.requests)
        raise StudyError(
            f"{arm.name} fails at {pair.load.name}: {found.failure}; finished segments are kept, and the same "
            "command goes on"
        )
    store.add_segment(_segment(found, number, pair, part, place), found.requests)


def _segment(found: Measured, number: int, pair: PlannedPair, part: Part, place: int) -> Segment:
    return Segment(
        number=number,
        test=pair.test,
        arm=part.arm,
        repeated=part.repeated,
        load=pair.load,
        round=pair.round,
        place=1 if place else 0,
        start_ms=found.start_ms,
        end_ms=found.end_ms,
        warm_ups=found.warm_ups,
        steady=found.steady,
        stopped=found.stopped,
        lag_ms=round(found.lag_ms, 3),
        cpu_share=round(found.cpu_share, 4),
    )


def address_of(study: EndpointStudy, arm: Arm) -> str:
    """Return the address of the server of an arm."""
    return study.pruned if arm == "pruned" and study.pruned is not None else study.dense


def pictures_of(study: EndpointStudy, store: RequestStore) -> Pictures:
    """Return the pictures that the study has not shown yet. Raises StudyError if there are too few.

    Each session draws other pictures, because a server may remember those of an earlier study.
    """
    drawn = sha256(f"{study.seed} {store.session}".encode()).digest()
    return Pictures(
        None if study.pictures is None else Path(study.pictures),
        study.prompt,
        seed=int.from_bytes(drawn[:4]),
        frames=study.frames,
        needed=most_requests(study),
        first=store.found.next_picture,
    )


def _step(pair: PlannedPair, part: Part, rounds: int) -> str:
    what = (
        part.arm if pair.test == "pruning" else f"{part.arm}, {'one picture' if part.repeated else 'distinct pictures'}"
    )
    return f"round {pair.round + 1} of {rounds}: {pair.load.name}, {what}"


def _key(variable: str | None) -> str | None:
    """Return the key of the servers. Raises StudyError if the variable that should hold it is empty."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise StudyError(
            f"--key-variable {variable}: this environment variable is empty; set it to the key of the server"
        )
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise StudyError(
            f"--key-variable {variable}: its value is no key: a header cannot hold its characters, or it has spaces "
            "around it; set it to the key of the server"
        )
    return key
