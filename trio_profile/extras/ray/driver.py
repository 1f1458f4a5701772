"""Measure a study on a Ray cluster. Each actor is a worker (`shared.work`) on a device of its own.

The driver measures nothing and keeps nothing: the workers claim their runs in the directory of the study, which all
nodes must see. So the driver can be killed, and started again on any machine.
"""

import fcntl
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

from trio_profile import units
from trio_profile.engine.board import Board, Terms, board_of
from trio_profile.engine.overview import Overview, overview
from trio_profile.errors import MeasurementError, ProfileError, StoreError, StudyError
from trio_profile.inputs.host import command_line
from trio_profile.installation import missing_extra
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.records.writing import write_whole
from trio_profile.studies import shared
from trio_profile.text import first_line

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
    """The share of a node that one worker takes.

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
    """Where a worker runs: the nth worker of a node.

    host: name of the node's machine.
    """

    node: str
    host: str
    number: int


class Worker:
    """A worker in an actor."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def work(self, directory: str, token: str, cores: int, planned: int, terms: Terms, command: str) -> None:
        """Measure runs until none is left.

        token: a file that the driver wrote among the leases.
        cores, planned: as in `_own_cores`.
        Raises the errors of `shared.work`, and StoreError if this node does not see the driver's directory. Any other
        error becomes a MeasurementError, because not every error can be sent to another process.
        """
        study = Path(directory)
        if not (study / LEASES / token).is_file():
            raise StoreError(
                f"{socket.gethostname()} does not see the driver's {directory}: choose an --out that all nodes see"
            )
        self._locks = _own_cores(cores, planned)
        try:
            shared.work(study, terms, stopped=self._stop.is_set, command=command)
        except KeyboardInterrupt:  # it was told to stop
            return
        except ProfileError:
            raise
        except Exception as error:
            raise MeasurementError(f"{type(error).__name__}: {first_line(error)}") from None

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
    resume: as in `shared.prepare`.
    Raises StudyError if Ray is not installed, if no cluster answers, or if no node has what a worker needs. Raises
    StoreError if the directory holds another study. Raises MeasurementError if the workers keep failing.
    """
    directory = directory.resolve()
    shared.prepare(study, directory, resume=resume)
    terms = (terms or Terms()).model_copy(update={"name": f"driver-{uuid4().hex[:8]}"})
    board = board_of(study, directory, terms)
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
    own = {"name": "", "engine": f"ray {ray.__version__}"}
    return terms.model_copy(update=own)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster, and yield the module `ray`."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise StudyError(missing_extra("--engine ray", "ray", error)) from error
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself tries for a minute
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has set one that ends the program
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
    refused: why a place is not used any more.
    cores: how many a worker has. It is decided once: workers with other numbers of threads are unlike.
    lost: how many workers were lost since a run was finished.
    """

    ray: Any
    board: Board
    need: Need
    terms: Terms
    token: str
    actors: dict[Any, tuple[Any, _Place]] = field(default_factory=dict)
    refused: dict[_Place, ProfileError] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    cores: int = 0

    def run(self, show: Show) -> None:
        """Run until every run is measured or given up."""
        try:
            while True:
                done = len(self.board.done)
                self.board.look()
                if len(self.board.done) > done:
                    self.lost.clear()
                refused = (f"{place.host}: {error}" for place, error in self.refused.items())
                show(overview(self.board, refused=tuple(dict.fromkeys(refused))))
                if self.board.is_finished:
                    return
                self._start()
                self._reap()
        finally:
            self._stop()

    def _start(self) -> None:
        """Start a worker at each place that has none."""
        taken = {place for _, place in self.actors.values()}
        usable = [place for place in self._places() if place not in self.refused]
        if not taken and not usable and self.refused:
            raise next(iter(self.refused.values()))
        for place in usable:
            if place not in taken and len(self.actors) < (self.need.workers or len(usable)):
                self._start_at(place)

    def _start_at(self, place: _Place) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = (
            self.ray.remote(Worker)
            .options(
                num_cpus=self.cores,
                num_gpus=self.need.gpus,
                memory=self.need.memory_bytes or None,
                max_concurrency=2,  # so that it hears `stop`
                scheduling_strategy=NodeAffinitySchedulingStrategy(place.node, soft=False),
            )
            .remote()
        )
        planned = sum(
            node["Resources"].get("CPU", 0) for node in self._nodes() if node["NodeManagerHostname"] == place.host
        )
        where = str(self.board.directory), self.token, self.cores, int(planned)
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
                fault = cause if isinstance(cause, ProfileError) else MeasurementError(" ".join(str(cause).split()))
                self.refused[place] = fault
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
        """Return where workers can run.

        Raises StudyError if no node of the cluster has what a worker needs, when it is asked first.
        """
        nodes, is_first = self._nodes(), not self.cores
        self.cores = cores = self.cores or self._cores()
        places: list[_Place] = []
        for node in nodes:
            has, host = node["Resources"], node["NodeManagerHostname"]
            room = [has.get("CPU", 0) // cores]
            if self.need.gpus:
                room.append(has.get("GPU", 0) // self.need.gpus)
            if self.need.memory_bytes:
                room.append(has.get("memory", 0) // self.need.memory_bytes)
            places += [_Place(node["NodeID"], host, number) for number in range(int(min(room)))]
        if not places and is_first:
            gpu = f", {self.need.gpus} GPU" if self.need.gpus else ""
            memory = f", {units.size(self.need.memory_bytes)}" if self.need.memory_bytes else ""
            raise StudyError(
                f"no node of the cluster has what a worker needs: {units.number_of(cores, 'core')}{gpu}{memory}"
            )
        return places


def _own_cores(cores: int, planned: int) -> list[int]:
    """Let this thread, and the processes that it starts, run on cores of their own. Return the locks of these cores.

    Each core has a lock in the machine's temporary directory, so that workers of other studies take other cores. The
    locks end with this process. In a container, and wherever Ray plans with a part of the machine's cores only, nobody
    knows which cores are free. Then only the number of threads is set.

    cores: how many.
    planned: with how many cores of this machine Ray plans.
    Raises StudyError if too few cores are free.
    """
    os.environ["OMP_NUM_THREADS"] = str(cores)
    available = sorted(os.sched_getaffinity(0))
    if planned != len(available):
        return []
    mine: dict[int, int] = {}
    for core in available:
        lock = os.open(Path(gettempdir()) / f"trio-profile-core-{core}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        mine[core] = lock
        if len(mine) == cores:
            os.sched_setaffinity(0, mine)
            return list(mine.values())
    raise StudyError(
        f"{socket.gethostname()} has {units.number_of(len(mine), 'free core')} of {len(available)}, and a worker takes "
        f"{cores}: another study measures there"
    )
