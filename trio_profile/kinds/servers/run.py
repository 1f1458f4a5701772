"""The kind `endpoints`: a dense and a pruned server under the same loads, in turn.

Each round measures each load once with either arm, one after the other, because two servers may share a device. Each
segment is kept as soon as it has ended (requests.py), and a later session goes on from there. A pair of which only one
segment was measured is measured again.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path

from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.inputs.digest import of_match, of_questions
from trio_profile.inputs.questions import Question
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.plan import PlannedPair, limits_of, most_requests, planned_pairs
from trio_profile.kinds.servers.questions import ask_questions, questions_of, unanswered
from trio_profile.kinds.servers.requests import Arm, PicturesUsed, RequestStore, Segment
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.summary import document_of
from trio_profile.kinds.servers.traffic.opening import ArmServer, open_arms, try_arm
from trio_profile.kinds.servers.traffic.pictures import Pictures
from trio_profile.kinds.servers.traffic.segment import run_segment
from trio_profile.progress import Step, Watch, ignore


def run(study: EndpointStudy, directory: Path | None = None, watch: Watch = ignore) -> EndpointsDocument:
    """Measure the servers of a study under its loads.

    directory: each segment is written to `requests.jsonl` here when it has ended. Segments that it holds already are
        not measured again.
    watch: called with each step.
    Raises StudyError if a server cannot be reached, does not stream, takes no pictures, has another model than the
    other one or than before, or fails under a load, and if the questions cannot be used. Raises StoreError if the
    directory holds another study, or one with other questions.
    """
    questions = questions_of(study)
    digests = of_match(study.match) | (of_questions(Path(study.questions)) if study.questions is not None else {})
    store = RequestStore(directory, study, host.session(host.without_torch(), digests))
    left = pairs_left(study, store)
    if left or unanswered(store.contents, questions):
        asyncio.run(_measure(study, store, left, questions, watch))
    return document_of(study, store.contents)


def document_so_far(study: EndpointStudy, directory: Path) -> EndpointsDocument:
    """Return the document of the pairs that a directory holds. Nobody is asked.

    Raises MeasurementError if no pair is finished. Raises StoreError if the directory holds another study.
    """
    return document_of(study, RequestStore(directory, study, host.session(host.without_torch())).contents)


def pairs_left(study: EndpointStudy, store: RequestStore) -> list[PlannedPair]:
    """Return the pairs that the store does not hold yet and that this session measures, in the order of measurement."""
    finished = {(dense.load, dense.round) for dense, _ in store.contents.pairs()}
    left = [pair for pair in planned_pairs(study) if (pair.load, pair.round) not in finished]
    if study.session_rounds is None or not left:
        return left
    return [pair for pair in left if pair.round < left[0].round + study.session_rounds]


async def _measure(
    study: EndpointStudy, store: RequestStore, left: Sequence[PlannedPair], questions: Sequence[Question], watch: Watch
) -> None:
    """Open the servers, ask the questions and measure the pairs. Raises as `run` does."""
    key, pictures = _key(study.key_variable), pictures_of(study, store)
    watch(Step("opening the servers"))
    async with open_arms(study, key) as arms:
        picture = pictures.take()
        facts = [await try_arm(arm, picture) for arm in arms.values()]
        for earlier in store.contents.servers:
            if (now := facts[0].model) != earlier.model:  # both arms have one model
                raise StudyError(
                    f"the servers have the model {now!r}, and an earlier session of this study asked "
                    f"{earlier.model!r}; choose another --out"
                )
        store.start()
        store.append(*facts)
        await ask_questions(study, store, arms, questions, watch)
        await measure_pairs(study, store, arms, pictures, left, watch)


async def measure_pairs(
    study: EndpointStudy,
    store: RequestStore,
    arms: Mapping[Arm, ArmServer],
    pictures: Pictures,
    left: Sequence[PlannedPair],
    watch: Watch = ignore,
) -> None:
    """Measure pairs, and keep each segment. Raises StudyError if a server fails under a load."""
    limits, seconds = limits_of(study), study.segment_seconds
    for done, (pair, place) in enumerate(product(left, (0, 1))):
        arm, number = arms[pair.arms[place]], store.contents.next_segment
        step = f"round {pair.round + 1} of {study.rounds}: {pair.load.name}, {arm.arm}"
        watch(Step(step, done * seconds, 2 * len(left) * seconds))
        pictures.prepare(limits.most(pair.load))
        store.append(PicturesUsed(next=pictures.next_number))  # before the segment, so that it counts in any case
        bodies = ((picture.number, arm.body(picture)) for picture in iter(pictures.take, None))
        seed = f"{study.seed} {pair.round} {pair.load.value}"
        measured = await run_segment(arm.server.ask, bodies, pair.load, limits, number=number, seed=seed)
        if measured.failure is not None:
            store.append(*measured.requests)
            raise StudyError(
                f"{arm.name} fails at {pair.load.name}: {measured.failure}; finished segments are kept, and the same "
                "command goes on"
            )
        times = {name: value for name, value in vars(measured).items() if name in Segment.model_fields}
        segment = Segment(number=number, arm=arm.arm, load=pair.load, round=pair.round, place=place, **times)
        store.append(*measured.requests, segment)


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
        first=store.contents.next_picture,
    )


def _key(variable: str | None) -> str | None:
    """Return the key of the servers. Raises StudyError if the variable that should hold it holds no key."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise StudyError(
            f"--key-variable {variable}: this environment variable is empty, or no header can hold its value; set it "
            "to the key of the server"
        )
    return key
