"""A study on a Ray cluster: its options, its hosts, and a real cluster of which parts are killed."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import permutations
from types import SimpleNamespace

import psutil
import pytest

from tests import needs
from trio_profile.cli import run
from trio_profile.engine.hosts import HostLost
from trio_profile.engine.orders import Order
from trio_profile.errors import StoreError, StudyError
from trio_profile.extras.ray import engine
from trio_profile.extras.ray.engine import Cluster, RayHost, cluster, own_cores, room_of
from trio_profile.installation import install_command
from trio_profile.judge.times import widest
from trio_profile.kinds.grid import run as local
from trio_profile.records.schema import Study
from trio_profile.records.store import Store, to_toml

ASKED = {"address": None, "hosts": None, "cores": None}


def node(name: str, **resources: float) -> dict:
    return {"NodeID": name, "NodeManagerHostname": name, "Alive": True, "Resources": resources}


@pytest.mark.parametrize(("option", "value"), [("--address", "auto"), ("--cores", "2"), ("--hosts", "1")])
def test_an_option_of_ray_needs_ray(option, value, tmp_path, capsys):
    assert run(["sweep", "--out", str(tmp_path), option, value]) == 2
    assert f"{option} needs --engine ray" in capsys.readouterr().err


def test_a_host_has_the_cores_of_the_smallest_node_or_its_share_of_them_on_a_gpu():
    on_cpus = [node("one", CPU=8.0), node("two", CPU=4.0), node("head", memory=1.0)]
    on_gpus = [node("one", CPU=64.0, GPU=8.0), node("two", CPU=64.0)]
    assert room_of(on_cpus, 0, None) == (4, 3)
    assert room_of(on_cpus, 0, 2) == (2, 6)
    assert room_of(on_gpus, 1, None) == (8, 8)
    assert room_of(on_gpus, 1, 32) == (32, 2)
    assert room_of([node("one", CPU=8.0, GPU=1.0)], 1, 16)[1] == 0


def test_a_cluster_without_room_is_refused():
    ray = SimpleNamespace(nodes=lambda: [node("one", CPU=8.0, GPU=1.0)])
    with pytest.raises(StudyError, match=r"^no node of the cluster has what a host needs: 16 cores, 1 GPU$"):
        Cluster(ray, None, 16).counting(Study(device="cuda"))


@dataclass(frozen=True, eq=False)
class Reference:
    """What a call of an actor returns."""

    number: int
    value: dict


LOST = {"node": "lost"}
"""The environment of a host whose node is lost while it starts."""


def fake_ray(*environments: dict, ready: int | None = None) -> SimpleNamespace:
    """A cluster whose hosts have these environments. ready: how many start in time; None for all."""
    waiting = iter(enumerate(environments))

    def environment(reference: Reference) -> tuple[str, dict]:
        if reference.value == LOST:
            raise KeyError("the actor died")
        return f"m{reference.number}", reference.value

    actors = SimpleNamespace(
        remote=lambda _: SimpleNamespace(environment=SimpleNamespace(remote=lambda _: Reference(*next(waiting))))
    )
    return SimpleNamespace(
        nodes=lambda: [node(f"n{number}", CPU=1.0) for number in range(len(environments))],
        remote=lambda _: SimpleNamespace(options=lambda **_: actors),
        wait=lambda references, **_: (references[:ready], references[ready:] if ready else []),
        get=environment,
        exceptions=SimpleNamespace(RayError=KeyError),
    )


def test_unlike_hosts_are_refused_before_they_measure():
    ray = fake_ray({"cpu": "new", "number": 1}, {"cpu": "old", "number": 1}, {"cpu": "new", "number": 1})
    says = r"^m1 holds another environment: cpu \('old' there, 'new' here\); all hosts of a study are of one kind"
    with pytest.raises(StoreError, match=says):
        Cluster(ray, None, 1).counting(Study(device="cpu"))


def test_hosts_that_do_not_start_are_left_out_and_without_any_the_study_is_refused():
    one = {"cpu": "new"}
    assert len(Cluster(fake_ray(LOST, one), None, 1).counting(Study(device="cpu"))) == 1
    with pytest.raises(StudyError, match=r"^a host could not start: 'the actor died'$"):
        Cluster(fake_ray(LOST, LOST), None, 1).counting(Study(device="cpu"))
    assert len(Cluster(fake_ray(one, one, one, ready=2), None, 1).counting(Study(device="cpu"))) == 2
    assert len(Cluster(fake_ray(one, one, one), 2, 1).timing(Study(device="cpu"))) == 2
    with pytest.raises(StudyError, match=r"^no host has started in 60 s: other programs use the cluster$"):
        Cluster(fake_ray(one, ready=0), None, 1).counting(Study(device="cpu"))


def test_a_lost_actor_is_started_again_and_its_order_goes_back():
    class Lost(Exception):
        pass

    class Raised(Lost):
        cause = ValueError("two\nlines")

    def told(reference):
        raise reference

    class Remote:
        error: Exception = Lost("The actor died\nunexpectedly")
        carry_out = property(lambda _: Remote)
        __ray_ready__ = SimpleNamespace(remote=lambda: None)
        options = staticmethod(lambda **_: SimpleNamespace(remote=lambda _: [Remote.error]))

    started = list[Remote]()
    exceptions = SimpleNamespace(RayTaskError=Raised, RayError=Lost)
    ray = SimpleNamespace(get=told, wait=lambda *_, **__: None, exceptions=exceptions, __version__="2")
    host = RayHost(ray, lambda: started.append(Remote()) or started[-1])
    with pytest.raises(HostLost, match=r"^The actor died$"):
        list(host.carry_out(Order(study=Study())))
    assert len(started) == 2 and host.actor is started[1]
    Remote.error = Raised()
    with pytest.raises(Exception, match=r"^two lines$"):  # an answer: the host is not lost
        list(host.carry_out(Order(study=Study())))
    assert len(started) == 2


def test_hosts_on_one_machine_run_on_cores_of_their_own(monkeypatch, tmp_path):
    owned: list[list[int]] = []
    monkeypatch.setattr(engine, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: owned.append(list(cores)))
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    locks = [own_cores(2, 4), own_cores(2, 4)]
    assert (owned, os.environ["OMP_NUM_THREADS"]) == ([[0, 1], [4, 5]], "2")
    with pytest.raises(StudyError, match=r"has 0 free cores of 4, and a host takes 2: another study measures there$"):
        own_cores(2, 4)
    for lock in locks[0]:
        os.close(lock)
    assert len(own_cores(2, 4)) == 2
    assert owned[-1] == [0, 1]
    assert own_cores(2, 2) == []  # Ray plans with a part of the machine: nobody knows which
    assert len(owned) == 3


def test_an_address_where_no_cluster_answers_is_refused_in_one_line():
    needs.package("ray", "ray")
    says = r"^--address 127\.0\.0\.1:9: no Ray cluster answers \(.*Connection refused"
    with pytest.raises(StudyError, match=says), cluster(ASKED | {"address": "127.0.0.1:9"}):
        pass


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    says = f"--engine ray needs the extra 'ray' .*{re.escape(install_command('ray'))}$"
    with pytest.raises(StudyError, match=says), cluster(ASKED):
        pass


@pytest.fixture
def nodes():
    """Three nodes on this machine: the head, which measures nothing, and two with a core each."""
    needs.package("ray", "ray")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two nodes need two cores")
    from ray.cluster_utils import Cluster as Nodes

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    found.second = [found.add_node(num_cpus=1), found.add_node(num_cpus=1)][1]
    yield found
    found.shutdown()


def records(out) -> int:
    """How many records the log has."""
    store = Store(out)
    if not store.exists():
        return 0
    found = store.read()
    return len(found.sessions) + len(found.cells) + len(found.rounds)


def actors_of(cluster) -> list[psutil.Process]:
    """The processes of the cluster that are actors."""
    found = (process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"])
    return [process for process in found if process.info["cmdline"][0].startswith("ray::Actor")]


@pytest.mark.slow
@pytest.mark.parametrize("victims", [*permutations(("actor", "driver", "node")), ("driver", "actor", "actor")])
def test_what_is_killed_loses_and_doubles_nothing_and_the_stopping_rule_is_the_same(
    victims, tiny_study: Study, tmp_path, nodes, without_fvcore
):
    """Each is killed with -9, at a moment that the progress of the study decides."""
    asked = {"processes": None, "precision": 0.5, "seconds": 300.0, "methods": ("trio", "random"), "fidelity_inputs": 2}
    study, draw = tiny_study.model_copy(update=asked), random.Random(" ".join(victims))
    out, file = tmp_path / "out", tmp_path / "study.toml"
    file.write_text(to_toml(study))
    command = [sys.executable, "-m", "trio_profile", "sweep", "--study", str(file), "--out", str(out)]
    command += ["--engine", "ray", "--address", nodes.address, "--cores", "1"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    driver, before = started(), 0
    try:
        for victim in victims:
            more, end = draw.randint(1, 12), time.monotonic() + 120
            while records(out) < before + more and driver.poll() is None:
                assert time.monotonic() < end, "nothing was measured in time"
                time.sleep(0.02)
            assert driver.poll() is None, f"it ended before a {victim} was killed: {driver.communicate()[1]}"
            before = records(out)
            if victim == "driver":
                driver.kill()
                driver.communicate()
                driver = started()
            elif victim == "node":
                nodes.remove_node(nodes.second, allow_graceful=False)
            elif found := actors_of(nodes):
                os.kill(draw.choice(found).pid, signal.SIGKILL)
        told, complaints = driver.communicate(timeout=300)
        assert driver.returncode == 0, complaints
        assert "report: " in told
    finally:
        driver.kill()
    found = Store(out).read()
    assert found.dropped == []
    assert widest(found) <= 0.5
    assert {session.engine.partition(" ")[0] for session in found.sessions} == {"ray"}
    alone = local.run(study.model_copy(update={"seconds": 1.0}), tmp_path / "local")
    assert len(found.measurements) == len(alone.measurements)
    for one, other in zip(found.measurements, alone.measurements, strict=True):
        assert (one.counted, one.kv_bytes, one.status) == (other.counted, other.kv_bytes, "done")
        assert len(one.timings) == len({timing.session for timing in one.timings})
