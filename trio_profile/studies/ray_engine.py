"""Measure a study on a Ray cluster. Each actor is a worker (`work.py`) on a device of its own.

The driver measures nothing and keeps nothing: the workers claim their runs in the directory of the study, which all
nodes must see. So the driver can be killed, and started again on any machine.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from trio_profile import units
from trio_profile.errors import MeasurementError, ProfileError, StoreError, StudyError
from trio_profile.inputs.host import command_line
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.records.writing import write_whole
from trio_profile.studies import work
from trio_profile.studies.board import Board
from trio_profile.studies.overview import Overview, overview
from trio_profile.studies.work import Terms

LOOK_SECONDS = 1.0
"""How often the driver looks at the cluster and at the study."""
MOST_LOST = 3
"""The driver stops after so many actors on each device were lost while no run was finished."""
STOP_SECONDS = 20.0
"""How long an interrupted driver waits for its workers to give their runs back."""

Show = Callable[[Overview], None]
"""A function that the driver calls with the state of the study, about once in a second."""


@dataclass(frozen=True)
class Need:
    """What one worker takes of a node.

    cores: CPU cores. The worker's processes run on these cores only. None: the CPUs of the smallest node, divided by
        its GPUs if the study uses one.
    gpus: 1 if the study runs on CUDA, else 0.
    memory_bytes: main memory; 0 reserves none.
    workers: the most workers at a time; None: as many as the cluster has devices for.
    """

    cores: int | None = None
    gpus: int = 0
    memory_bytes: int = 0
    workers: int | None = None


@dataclass(frozen=True)
class _Place:
    """Where a worker runs: the nth part of a node's machine."""

    node: str
    host: str
    slot: int


class Worker:
    """A worker in an actor."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def work(self, directory: str, token: str, place: tuple[int, int], terms: Terms, command: str) -> None:
        """Measure runs until none is left.

        token: a file that the driver wrote among the leases.
        place: which part of the machine's cores, and how many cores a part has.
        Raises the errors of `work.work`, and StoreError if this node does not see the driver's directory.
        """
        study = Path(directory)
        if not (study / LEASES / token).is_file():
            raise StoreError(
                f"{socket.gethostname()} does not see the driver's {directory}: choose an --out that all nodes see"
            )
        _own_cores(*place)
        with suppress(KeyboardInterrupt):  # it was told to stop
            work.work(study, terms, stopped=self._stop.is_set, command=command)

    def stop(self) -> None:
        """Let the worker end, and give its run back."""
        self._stop.set()


def run(
    study: Study,
    directory: Path,
    need: Need,
    show: Show,
    *,
    address: str = "auto",
    terms: Terms | None = None,
    resume: bool = True,
) -> Contents:
    """Measure a study on a Ray cluster, until no run is left. Return what all workers measured.

    address: of the cluster: `HOST:PORT`, or `auto` for the one of this machine.
    resume: as in `work.prepare`.
    Raises StudyError if Ray is not installed, if no cluster answers, or if no node has what a worker needs. Raises
    StoreError if the directory holds another study. Raises MeasurementError if the workers keep failing.
    """
    directory = directory.resolve()
    work.prepare(study, directory, resume=resume)
    terms = replace(terms or Terms(), name=f"driver-{uuid4().hex[:8]}")
    if terms.retry:
        work.board_of(directory, terms).retry()
    board = work.board_of(directory, terms)
    board.look()
    if not board.is_finished:
        token = f".{board.leases.worker}"
        write_whole(directory / LEASES / token, "")
        try:
            with _cluster(address) as ray:
                _Driver(ray, board, need, _of_workers(terms, ray), token).run(show)
        finally:
            (directory / LEASES / token).unlink(missing_ok=True)
    return Store(directory).read()


def _of_workers(terms: Terms, ray: Any) -> Terms:
    return replace(terms, name="", retry=False, engine=f"ray {ray.__version__}")


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster, and yield the module `ray`."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise StudyError(f"--engine ray needs the extra 'ray' ({error}): pip install 'trio-profile[ray]'") from error
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself tries for a minute
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StudyError(
            f"--address {address}: no Ray cluster answers ({reason}): start one with `ray start --head`, or name its "
            "HOST:PORT"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@dataclass
class _Driver:
    """Starts a worker on each free device, and another one if it is lost.

    actors: the actor and the place of each worker, by the reference to its end.
    places: where workers can run. A place keeps its cores as long as its node lives.
    refused: why a place is not used any more.
    lost: how many workers were lost since a run was finished.
    """

    ray: Any
    board: Board
    need: Need
    terms: Terms
    token: str
    actors: dict[Any, tuple[Any, _Place]] = field(default_factory=dict)
    places: dict[tuple[str, int], _Place] = field(default_factory=dict)
    refused: dict[_Place, ProfileError] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def run(self, show: Show) -> None:
        """Run until every run is measured or given up."""
        try:
            while True:
                done = len(self.board.done)
                self.board.look()
                if len(self.board.done) > done:
                    self.lost.clear()
                refused = (f"{place.host}: {error}" for place, error in self.refused.items())
                show(replace(overview(self.board), refused=tuple(dict.fromkeys(refused))))
                if self.board.is_finished:
                    return
                self._start()
                self._reap()
        finally:
            self._stop()

    def _start(self) -> None:
        """Start a worker at each place that has none."""
        places = self._places()
        taken = {place for _, place in self.actors.values()}
        if not taken and all(place in self.refused for place in places):
            raise next(iter(self.refused.values()))
        for place in places:
            if place not in taken and place not in self.refused:
                self._start_at(place)

    def _start_at(self, place: _Place) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cores = self._cores()
        actor = (
            self.ray.remote(Worker)
            .options(
                num_cpus=cores,
                num_gpus=self.need.gpus,
                memory=self.need.memory_bytes or None,
                max_concurrency=2,  # so that it hears `stop`
                scheduling_strategy=NodeAffinitySchedulingStrategy(place.node, soft=False),
            )
            .remote()
        )
        where = str(self.board.directory), self.token, (place.slot, cores)
        self.actors[actor.work.remote(*where, self.terms, command_line())] = actor, place

    def _reap(self) -> None:
        """Wait a moment for workers that end. Raises MeasurementError if they are lost again and again."""
        ended, _ = self.ray.wait(list(self.actors), num_returns=1, timeout=LOOK_SECONDS)
        for reference in ended:
            _, place = self.actors.pop(reference)
            try:
                self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                cause = error.cause
                told = cause if isinstance(cause, ProfileError) else MeasurementError(" ".join(str(cause).split()))
                self.refused[place] = told
            except self.ray.exceptions.RayError as error:
                self.lost.append(" ".join(str(error).split())[:300])
        if len(self.lost) > MOST_LOST * max(1, len(self.actors)):
            raise MeasurementError(
                f"{units.number_of(len(self.lost), 'worker')} were lost and no run was finished: {self.lost[-1]}"
            )

    def _stop(self) -> None:
        """Let the workers end, and wait until they have given their runs back."""
        for actor, _ in self.actors.values():
            actor.stop.remote()
        if self.actors:
            self.ray.wait(list(self.actors), num_returns=len(self.actors), timeout=STOP_SECONDS)

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _cores(self) -> int:
        """Return how many cores a worker has."""
        if self.need.cores is not None:
            return self.need.cores
        able = [node["Resources"] for node in self._nodes() if node["Resources"].get("GPU", 0) >= self.need.gpus]
        shares = [
            node.get("CPU", 0) // (node.get("GPU", 1) if self.need.gpus else 1) for node in able if node.get("CPU", 0)
        ]
        return max(1, int(min(shares, default=1)))

    def _places(self) -> list[_Place]:
        """Return where workers can run. Nodes on one machine share its cores.

        Raises StudyError if no node has what a worker needs.
        """
        cores, nodes = self._cores(), self._nodes()
        alive = {node["NodeID"] for node in nodes}
        self.places = {key: place for key, place in self.places.items() if place.node in alive}
        for node in nodes:
            has, host = node["Resources"], node["NodeManagerHostname"]
            room = [has.get("CPU", 0) // cores]
            if self.need.gpus:
                room.append(has.get("GPU", 0) // self.need.gpus)
            if self.need.memory_bytes:
                room.append(has.get("memory", 0) // self.need.memory_bytes)
            for number in range(int(min(room))):
                taken = {place.slot for place in self.places.values() if place.host == host}
                free = next(slot for slot in count() if slot not in taken)
                self.places.setdefault((node["NodeID"], number), _Place(node["NodeID"], host, free))
        found = list(self.places.values())
        if not found:
            gpu = f", {self.need.gpus} GPU" if self.need.gpus else ""
            memory = f", {units.size(self.need.memory_bytes)}" if self.need.memory_bytes else ""
            raise StudyError(
                f"no node of the cluster has what a worker needs: {units.number_of(cores, 'core')}{gpu}{memory}"
            )
        return found[: self.need.workers]


def _own_cores(slot: int, cores: int) -> None:
    """Let this thread, and the processes that it starts, run on the nth part of this machine's cores only.

    Raises StudyError if the machine has fewer cores than Ray was told.
    """
    available = sorted(os.sched_getaffinity(0))
    mine = available[slot * cores : (slot + 1) * cores]
    if len(mine) < cores:
        raise StudyError(
            f"{socket.gethostname()} has {units.number_of(len(available), 'core')}, and Ray was told of more: give its "
            "node --num-cpus"
        )
    os.sched_setaffinity(0, mine)
    os.environ["OMP_NUM_THREADS"] = str(cores)
