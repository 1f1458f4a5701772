"""`--engine ray`: hosts on a Ray cluster. Ray chooses the node of each host, and keeps its cores and its GPU for it."""

import fcntl
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, Any

from trio_profile import units
from trio_profile.cli.common_options import flag
from trio_profile.engine.hosts import Choice, Host, HostLost, ProcessHost
from trio_profile.engine.orders import Event, Order
from trio_profile.engine.processes import Failure, Server
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.installation import missing_extra
from trio_profile.records.differences import ONE_KIND, require_same
from trio_profile.records.option import HOSTS
from trio_profile.text import first_line

if TYPE_CHECKING:
    from trio_profile.records.schema import Study

START_SECONDS = 60.0
"""How long a host may take to start. Ray itself waits for ever for cores that are not free."""


def _option(name: str, type_: Any, text: str, **limits: Any) -> tuple[Any, None]:
    return Annotated[type_ | None, flag(name, f"Ray: {text}", panel=HOSTS, **limits)], None


OPTIONS = {
    "address": _option(
        "--address", str, "the cluster's HOST:PORT, or auto for the one of this machine. Default: auto."
    ),
    "hosts": _option("--hosts", int, "how many hosts measure. Default: as many as the cluster has room for.", min=1),
    "cores": _option(
        "--cores",
        int,
        "CPU cores that a host has for itself. Default: those of the smallest node; on CUDA, its share for each GPU.",
        min=1,
    ),
}


class Actor:
    """A host on a node of the cluster. Its processes run on cores of their own. cores: how many."""

    def __init__(self, cores: int) -> None:
        self._locks = own_cores(cores, _planned_here())
        self._host = ProcessHost(Server())

    def environment(self, device: str) -> tuple[str, dict[str, Any]]:
        """The name of the machine, and what must be equal on all hosts of a study."""
        from trio_profile.inputs.environment import collect

        return socket.gethostname(), collect(device, fresh=True).identity

    def carry_out(self, order: Order) -> Iterator[Event | Failure]:
        """Carry out an order. Yield what it tells, and at the end an error that the process met."""
        try:
            for event in self._host.carry_out(order):  # noqa: UP028 - Ray sends values, and a list takes none
                yield event
        except Exception as error:
            yield Failure.of(error)


class RayHost:
    """An actor, as the driver sees it. After the actor was lost, another one is started.

    ray: the module.
    start: starts an actor.
    """

    def __init__(self, ray: Any, start: Callable[[], Any]) -> None:
        self._ray, self._start = ray, start
        self.actor: Any = start()

    def carry_out(self, order: Order) -> Iterator[Event]:
        """Carry out an order in the actor."""
        ray, order = self._ray, order.model_copy(update={"engine": f"ray {self._ray.__version__}"})
        try:
            for reference in self.actor.carry_out.options(num_returns="streaming").remote(order):
                event = ray.get(reference)
                if isinstance(event, Failure):
                    raise event.error()
                yield event
        except ray.exceptions.RayTaskError as error:
            raise MeasurementError(" ".join(str(error.cause).split())) from error
        except ray.exceptions.RayError as error:
            self.actor = self._start()
            ray.wait([self.actor.__ray_ready__.remote()], timeout=START_SECONDS)
            raise HostLost(first_line(error)) from error


class Cluster:
    """The engine of a Ray cluster.

    ray: the module, connected.
    hosts, cores: as the options.
    """

    def __init__(self, ray: Any, hosts: int | None, cores: int | None) -> None:
        self._ray, self._most, self._cores = ray, hosts, cores
        self._hosts: list[RayHost] = []

    def counting(self, study: "Study") -> Sequence[Host]:
        """All hosts.

        Raises StudyError if no node has room for one, or if none starts. Raises StoreError if two machines differ.
        """
        if not self._hosts:
            gpus = int(study.device.startswith("cuda"))
            cores, room = room_of([node for node in self._ray.nodes() if node["Alive"]], gpus, self._cores)
            if not room:
                needed = units.number_of(cores, "core") + (", 1 GPU" if gpus else "")
                raise StudyError(f"no node of the cluster has what a host needs: {needed}")
            options = self._ray.remote(Actor).options(num_cpus=cores, num_gpus=gpus)
            hosts = [RayHost(self._ray, lambda: options.remote(cores)) for _ in range(min(self._most or room, room))]
            self._hosts = self._alike(hosts, study.device)
        return self._hosts

    def timing(self, study: "Study") -> Sequence[Host]:
        """All hosts: each has cores of its own."""
        return self.counting(study)

    def _alike(self, hosts: Sequence[RayHost], device: str) -> list[RayHost]:
        """The hosts that have started. Raises StudyError if there is none, and StoreError if their machines differ.

        A host is left out if it dies while it starts: Ray may still plan with a node that was just lost.
        """
        started = {host.actor.environment.remote(device): host for host in hosts}
        ready, _ = self._ray.wait([*started], num_returns=len(started), timeout=START_SECONDS)
        if not ready:
            raise StudyError(f"no host has started in {START_SECONDS:g} s: other programs use the cluster")
        alive: list[RayHost] = []
        first: dict[str, Any] = {}
        problem = ""
        for reference in ready:
            try:
                machine, environment = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                problem = first_line(getattr(error, "cause", None) or error)
                continue
            first = first or environment
            require_same("environment", environment, first, Path(machine), ONE_KIND)
            alive.append(started[reference])
        if not alive:
            raise StudyError(f"a host could not start: {problem}")
        return alive


def room_of(nodes: Sequence[dict[str, Any]], gpus: int, cores: int | None) -> tuple[int, int]:
    """How many cores a host has, and how many hosts the nodes have room for.

    nodes: as `ray.nodes()` describes them.
    gpus: of a host, 0 or 1.
    cores: of a host; None for those of the smallest node that has what it needs, or its share for each GPU.
    """
    able = [node["Resources"] for node in nodes if node["Resources"].get("GPU", 0) >= gpus]
    able = [resources for resources in able if resources.get("CPU", 0)]
    shares = [resources["CPU"] // (resources["GPU"] if gpus else 1) for resources in able]
    cores = cores or max(1, int(min(shares, default=1)))
    rooms = [min(has["CPU"] // cores, has["GPU"] if gpus else has["CPU"]) for has in able]
    return cores, int(sum(rooms))


def own_cores(cores: int, planned: int) -> list[int]:
    """Let this thread, and the processes that it starts, run on cores of their own. Return the locks of these cores.

    Each core has a lock in the machine's temporary directory, so that hosts of other studies take other cores. The
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
        f"{socket.gethostname()} has {units.number_of(len(mine), 'free core')} of {len(available)}, and a host takes "
        f"{cores}: another study measures there"
    )


def _planned_here() -> int:
    """With how many cores of this actor's machine Ray plans: those of all nodes on it."""
    import ray

    nodes, here = ray.nodes(), ray.get_runtime_context().get_node_id()
    [machine] = [node["NodeManagerHostname"] for node in nodes if node["NodeID"] == here]
    alike = [node for node in nodes if node["Alive"] and node["NodeManagerHostname"] == machine]
    return int(sum(node["Resources"].get("CPU", 0) for node in alike))


@contextmanager
def cluster(values: dict[str, Any]) -> Iterator[Cluster]:
    """Connect to the cluster. values: the options, by name.

    Raises StudyError if Ray is not installed, or if no cluster answers.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise StudyError(missing_extra("--engine ray", "ray", error)) from error
    address = values["address"] or "auto"
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
        yield Cluster(ray, values["hosts"], values["cores"])
    finally:
        ray.shutdown()


ENGINE = Choice("ray", "hosts on a Ray cluster.", OPTIONS, cluster)
