"""A study on a Ray cluster: the driver, its places, and a real cluster of which parts are killed."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import needs
from tests.profile.engine.test_worker import assert_same_study, wait_for
from trio_profile.engine import local
from trio_profile.engine.board import Terms
from trio_profile.errors import MeasurementError, StoreError, StudyError
from trio_profile.extras.ray import driver as ray_driver
from trio_profile.extras.ray.driver import Need
from trio_profile.installation import install_command
from trio_profile.records.leases import LEASES
from trio_profile.records.schema import Study
from trio_profile.records.store import Store, to_toml
from trio_profile.studies import shared


def node(name: str, host: str, **resources: float) -> dict:
    return {"NodeID": name, "NodeManagerHostname": host, "Alive": True, "Resources": resources}


def driver(*nodes: dict, need: Need | None = None, directory=None):
    ray = SimpleNamespace(nodes=lambda: list(nodes))
    board = SimpleNamespace(directory=directory)
    return ray_driver._Driver(ray, board, need or Need(), Terms(), "token")  # pyright: ignore[reportArgumentType]


def test_a_worker_has_the_cores_of_the_smallest_node_or_its_share_of_them_on_a_gpu():
    on_cpus = driver(node("a", "one", CPU=8.0), node("b", "two", CPU=4.0), node("head", "three", memory=1.0))
    on_gpus = driver(node("a", "one", CPU=64.0, GPU=8.0), node("b", "two", CPU=64.0), need=Need(gpus=1))
    for found, cores, hosts in ((on_cpus, 4, {"one": 2, "two": 1}), (on_gpus, 8, {"one": 8})):
        assert found._cores() == cores
        slots = [(host, slot) for host, count in hosts.items() for slot in range(count)]
        assert [(place.host, place.number) for place in found._places()] == slots


def test_memory_and_the_number_of_workers_are_bounds():
    nodes = node("a", "one", CPU=8.0, memory=40.0), node("b", "two", CPU=8.0, memory=10.0)
    assert len(driver(*nodes, need=Need(cores=2, memory_bytes=15))._places()) == 2
    found, started = driver(*nodes, need=Need(cores=2, workers=3)), list[object]()
    found._start_at = lambda place: found.actors.update({place: (None, place)}) or started.append(place)
    found._start()
    found._start()
    assert len(started) == 3
    found.refused[started[0]] = StoreError("another environment")  # another place is used instead
    del found.actors[started[0]]
    found._start()
    assert len(started) == 4


def test_a_smaller_node_that_joins_does_not_change_the_cores_of_a_worker():
    nodes = [node("a", "one", CPU=8.0)]
    found = driver(*nodes, node("b", "two", CPU=8.0))
    assert len(found._places()) == 2
    found.ray.nodes = lambda: [*nodes, node("c", "three", CPU=4.0)]
    assert ([place.host for place in found._places()], found.cores) == (["one"], 8)
    found.ray.nodes = list  # the last node was lost: another one may come
    assert found._places() == []


def test_a_cluster_without_what_a_worker_needs_is_refused():
    with pytest.raises(StudyError, match=r"^no node of the cluster has what a worker needs: 16 cores, 1 GPU$"):
        driver(node("a", "one", CPU=8.0, GPU=1.0), need=Need(cores=16, gpus=1))._places()


def test_workers_on_one_machine_run_on_cores_of_their_own(monkeypatch, tmp_path):
    owned: list[list[int]] = []
    monkeypatch.setattr(ray_driver, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: owned.append(list(cores)))
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    locks = [ray_driver._own_cores(2, 4), ray_driver._own_cores(2, 4)]
    assert (owned, os.environ["OMP_NUM_THREADS"]) == ([[0, 1], [4, 5]], "2")
    with pytest.raises(StudyError, match=r"has 0 free cores of 4, and a worker takes 2: another study measures there$"):
        ray_driver._own_cores(2, 4)
    for lock in locks[0]:
        os.close(lock)
    assert len(ray_driver._own_cores(2, 4)) == 2
    assert owned[-1] == [0, 1]
    assert ray_driver._own_cores(2, 2) == []  # Ray plans with a part of the machine: nobody knows which
    assert len(owned) == 3


def test_a_node_that_does_not_see_the_directory_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"does not see the driver's .*: choose an --out that all nodes see"):
        ray_driver.Worker().work(str(tmp_path), "token", 1, 1, Terms(), "")


def test_a_place_that_is_refused_is_not_used_again_and_the_last_one_ends_the_driver(tmp_path):
    found = driver(node("a", "one", CPU=1.0), directory=tmp_path)
    (place,) = found._places()
    found.refused[place] = StoreError("another environment")
    with pytest.raises(StoreError, match="another environment"):
        found._start()


def test_workers_that_are_lost_again_and_again_end_the_driver():
    class Lost(Exception):
        pass

    found = driver(node("a", "one", CPU=1.0))
    found.ray.exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=Lost)

    def get(_reference):
        raise Lost("The actor died\nunexpectedly")

    found.ray.get, found.ray.wait = get, lambda references, **_: (references, [])
    (place,) = found._places()
    for number in range(ray_driver.MOST_LOST):
        found.actors[number] = None, place
        found._reap()
    found.actors["last"] = None, place
    with pytest.raises(MeasurementError, match=r"^4 workers were lost and no run was finished: The actor died unexp"):
        found._reap()


def test_an_address_where_no_cluster_answers_is_refused_in_one_line(tiny_study, tmp_path):
    needs.package("ray", "ray")
    with pytest.raises(StudyError, match=r"^--address 127\.0\.0\.1:9: no Ray cluster answers \(.*Connection refused"):
        ray_driver.run(tiny_study, tmp_path, Need(), print, address="127.0.0.1:9")


def test_ray_is_an_extra(tiny_study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StudyError, match=f"--engine ray needs the extra 'ray' .*{re.escape(install_command('ray'))}$"):
        ray_driver.run(tiny_study, tmp_path, Need(), print)


@pytest.fixture(scope="module")
def cluster():
    """Three nodes on this machine: the head, which measures nothing, and two with a core each."""
    needs.package("ray", "ray")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two nodes need two cores")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    found.first, found.second = found.add_node(num_cpus=1), found.add_node(num_cpus=1)
    yield found
    found.shutdown()


@pytest.mark.slow
def test_a_study_survives_a_killed_worker_a_killed_driver_and_a_killed_raylet(
    tiny_study: Study, tmp_path, cluster, without_fvcore
):
    study = tiny_study.model_copy(update={"processes": 2, "methods": ("trio", "random"), "fidelity_inputs": 2})
    out = tmp_path / "out"
    shared.prepare(study, out)
    file = tmp_path / "study.toml"
    file.write_text(to_toml(study))
    command = [sys.executable, "-m", "trio_profile", "sweep", "--study", str(file), "--out", str(out)]
    command += ["--engine", "ray", "--address", cluster.address, "--cores", "1", "--lease-seconds", "3"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def holders() -> set[str]:
        leases = [path for pattern in ("cells-*.[0-9]", "dense.0.[0-9]") for path in (out / LEASES).glob(pattern)]
        return {path.read_text() for path in leases if path.is_file()}

    def finished() -> int:
        return len(Store(out).read().runs) if Store(out).exists() else 0

    first = started()
    try:
        wait_for(holders)
        os.kill(int(next(iter(holders())).rpartition("-")[2]), signal.SIGKILL)  # a worker: an actor's process
        wait_for(lambda: finished() >= 2)
        first.kill()
        first.communicate()
        second = started()
        seen = finished()
        wait_for(lambda: finished() > seen and holders())
        cluster.remove_node(cluster.second, allow_graceful=False)
        told, complaints = second.communicate(timeout=240)
        assert second.returncode == 0, complaints
        assert "report: " in told
    finally:
        first.kill()
    found = Store(out).read()
    assert found.dropped == []
    assert [run.failed for run in found.runs] == [None] * 4
    assert all(len({timing.session for timing in cell.timings}) == 2 for cell in found.measurements)
    assert {session.engine.partition(" ")[0] for session in found.sessions} == {"ray"}
    assert_same_study(found, local.run(study, tmp_path / "local"))
