"""The kind `endpoints`: its answers in virtual time, where the break-even is known, and its errors on loopback."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.profile.command import complaint, document
from tests.profile.kinds.servers.fake_servers import FakeServer, Queue, study, virtual
from tests.profile.kinds.servers.kept import segment_with
from tests.profile.reading import line_of
from trio_profile.cli import run
from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.installation import install_command
from trio_profile.kinds.servers import run as endpoints
from trio_profile.kinds.servers.advice import conclude
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.plan import prepare
from trio_profile.kinds.servers.requests import ARMS, RequestLog, RequestStore
from trio_profile.kinds.servers.run import measure_pairs, pairs_left
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.summary import document_of
from trio_profile.kinds.servers.traffic.opening import ArmServer
from trio_profile.kinds.servers.traffic.pictures import Picture
from trio_profile.records.files import STUDY
from trio_profile.study import running

MANY = 1e5
"""Seconds that no segment reaches."""


class Numbers:
    """Pictures without a picture: only their numbers, which are also their addresses."""

    next_number = 0

    def prepare(self, number: int) -> None:
        pass

    def take(self) -> Picture:
        self.next_number += 1
        return Picture(self.next_number, str(self.next_number), "")


def measure(asked: EndpointStudy, dense: Any, pruned: Any) -> tuple[EndpointsDocument, RequestLog]:
    """Measure two servers without a network, in virtual time."""
    store = RequestStore(None, asked, host.session(host.without_torch()))
    store.start()
    servers = {"dense": dense, "pruned": pruned}
    arms: Any = {arm: ArmServer(arm, server, f"the {arm} server", "m", 16, {}) for arm, server in servers.items()}
    pictures: Any = Numbers()
    virtual(measure_pairs(asked, store, arms, pictures, pairs_left(asked, store)))
    return document_of(asked, store.contents), store.contents


def crossing(dense: Queue, pruned: Queue) -> float:
    """The concurrency at which two queues have one throughput, on a line between whole numbers."""
    at_once = 1
    while dense.throughput(at_once + 1) < pruned.throughput(at_once + 1):
        at_once += 1
    low, high = (dense.throughput(n) - pruned.throughput(n) for n in (at_once, at_once + 1))
    return at_once - low / (high - low)


@pytest.mark.slow
def test_the_break_even_lies_in_its_interval_in_18_of_20_studies():
    """Pruning shortens the parallel part of the work and lengthens the serial part, as in vLLM's pull request 51221."""
    inside = 0
    for seed in range(20):
        dense = Queue(0.01, 0.09, noise=0.05, exponential=True, seed=2 * seed)
        pruned = Queue(0.02, 0.03, noise=0.05, exponential=True, seed=2 * seed + 1)
        asked = study(concurrency=(2, 4, 8, 16), requests=48, segment_seconds=MANY, seed=seed)
        (one,) = (one for one in measure(asked, dense, pruned)[0].break_even if one.quantity == "throughput")
        assert one.ci95 is not None
        inside += one.ci95[0] <= crossing(dense, pruned) <= one.ci95[1]
        assert one.pays == "below"
    assert inside >= 18


def test_throughput_without_noise_is_the_computed_one():
    """dense: min(c / 0.1, 1 / 0.01). pruned: min(c / 0.05, 1 / 0.02). They are equal at c = 5."""
    asked = study(concurrency=(1, 2, 4, 8, 16), requests=40, segment_seconds=MANY)
    document, _ = measure(asked, Queue(0.01, 0.09), Queue(0.02, 0.03))
    dense = [one.dense.throughput.value for one in document.loads if one.dense.throughput]
    pruned = [one.pruned.throughput.value for one in document.loads if one.pruned.throughput]
    assert dense == pytest.approx([10, 20, 40, 80, 100], rel=1e-3)
    assert pruned == pytest.approx([20, 40, 50, 50, 50], rel=1e-3)
    one = document.break_even[0]
    assert (one.status, one.load) == ("crossing", pytest.approx(5, rel=1e-3))


def test_dense_and_pruned_take_turns_and_never_run_together():
    log: list[tuple[Queue, float, float]] = []

    class Logged(Queue):
        async def ask(self, body):
            reply = await super().ask(body)
            log.append((self, reply.start, reply.end))
            return reply

    dense, pruned = Logged(0.1, 0.1), Logged(0.1, 0.1)
    _, contents = measure(study(concurrency=(1, 3), requests=10, rounds=4, segment_seconds=MANY), dense, pruned)
    for server, begin, end in log:
        assert not any(other is not server and start < end and begin < stop for other, start, stop in log)
    for value in (1, 3):
        firsts = [one.arm for one in contents.segments if one.load.value == value and one.place == 0]
        assert sorted(firsts) == ["dense", "dense", "pruned", "pruned"]


def test_a_server_of_which_one_answer_in_five_dies_gets_no_advice():
    """It is faster than the dense one."""
    asked = study(concurrency=(1, 4), requests=20, rounds=2, segment_seconds=MANY)
    document, _ = measure(asked, Queue(0.01, 0.09), Queue(0.01, 0.03, fails=lambda number: number % 5 == 0))
    line = line_of(conclude(document))
    assert line.startswith("Nothing to decide: a server failed: ")
    assert "requests to the pruned server failed, warm-up included, most often: HTTP 503: too busy" in line


# --- on loopback ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked_small(small_pictures) -> list[str]:
    """The options of a small study."""
    sizes = ["--concurrency", "1,2", "--requests", "4", "--seconds", "5", "--rounds", "2", "--new-tokens", "4"]
    return [*sizes, "--pictures", str(small_pictures)]


def command(dense: FakeServer, pruned: FakeServer, options: list[str], out: Path) -> list[str]:
    """The command that measures two servers."""
    return ["endpoints", "--dense", dense.url, "--pruned", pruned.url, *options, "--out", str(out)]


@pytest.fixture(scope="module")
def studied(asked_small, tmp_path_factory) -> SimpleNamespace:
    """A small study of two servers on loopback, kept in a directory."""
    out: Path = tmp_path_factory.mktemp("endpoints") / "study"
    with FakeServer(rest_s=0.02) as dense, FakeServer(rest_s=0.01, kept=16) as pruned:
        arguments = command(dense, pruned, asked_small, out)
        assert run([*arguments, "--json"]) == 0
    return SimpleNamespace(out=out, arguments=arguments, requests=dense.requests + pruned.requests, url=dense.url)


def test_a_study_is_measured_kept_and_read_again(studied, capsys):
    shown = document(capsys, "show", studied.out)
    assert shown["retention"] == 0.25
    assert [one["load"] for one in shown["loads"]] == [1, 2]
    assert all(one[arm]["errors"] == 0 for one in shown["loads"] for arm in ("dense", "pruned"))
    names = {path.name for path in studied.out.iterdir()}
    assert names >= {"endpoints.json", "requests.jsonl", "study.toml", "report.html"}
    assert run(["show", str(studied.out)]) == 0
    assert "Does pruning pay in this server?" in capsys.readouterr().out


def test_every_request_has_a_picture_of_its_own(studied):
    """Apart from the one that opens the session: both servers get it."""
    urls = _pictures(studied.requests)
    assert len(urls) - 1 == len(set(urls)) > 30


def test_a_finished_study_asks_nobody_again(studied, capsys):
    """The servers are gone by now."""
    before = (studied.out / "requests.jsonl").read_bytes()
    again = document(capsys, *studied.arguments)
    assert again["loads"] == document(capsys, "show", studied.out)["loads"]
    assert (studied.out / "requests.jsonl").read_bytes() == before
    said = complaint(capsys, *studied.arguments, "--requests", "5")
    assert "holds another study: requests (4 there, 5 here)" in said
    found = document(capsys, "endpoints", "--study", studied.out / "study.toml", "--dry-run")
    assert found["study"]["dense"] == studied.url and found["segments"] == 8


def test_servers_can_be_started_anew_for_each_round(asked_small, tmp_path, capsys):
    out = tmp_path / "study"
    with FakeServer() as dense, FakeServer(kept=16) as pruned:
        arguments = [*command(dense, pruned, asked_small, out), "--session-rounds", "1"]
        first = document(capsys, *arguments)
        assert (first["pairs_left"], (out / "study.toml").exists()) == (2, False)
        second = document(capsys, *arguments)
    assert (second["pairs_left"], (out / "study.toml").exists()) == (0, True)
    sessions = [line["session"] for line in _lines(out) if line["record"] == "segment"]
    rounds = [line["round"] for line in _lines(out) if line["record"] == "segment"]
    assert rounds == [0] * 4 + [1] * 4 and len(set(sessions[:4])) == len(set(sessions[4:])) == 1 < len(set(sessions))
    assert [load["rounds"] for load in second["loads"]] == [2, 2]


def test_a_server_that_fails_under_load_keeps_what_was_measured(asked_small, tmp_path, capsys):
    out = tmp_path / "study"
    with FakeServer() as dense, FakeServer(fault="status 503", broken_from=40) as pruned:
        arguments = command(dense, pruned, asked_small, out)
        said = complaint(capsys, *arguments)
        assert f"the pruned server {pruned.url} fails at concurrency" in said
        assert "HTTP 503: no luck with no key; finished segments are kept, and the same command goes on" in said
        segments = [line for line in _lines(out) if line["record"] == "segment"]
        assert segments and not (out / "study.toml").exists()
        pruned.fault, dense.models, pruned.models = "", ("other",), ("other",)
        assert "asked 'fake'; choose another --out" in complaint(capsys, *arguments)
        dense.models = pruned.models = ("fake",)
        assert run([*arguments, "--json"]) == 0
    assert len([line for line in _lines(out) if line["record"] == "session"]) == 2


def test_an_interruption_keeps_finished_segments_and_shows_no_picture_again(asked_small, tmp_path, capsys, monkeypatch):
    """It comes after the requests of the fourth segment, before they are kept."""
    measured = endpoints.run_segment
    calls: list[int] = []

    async def interrupted(*arguments, **options):
        found = await measured(*arguments, **options)
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(endpoints, "run_segment", interrupted)
    with FakeServer() as dense, FakeServer() as pruned:
        arguments = command(dense, pruned, asked_small, tmp_path / "s")
        assert run(arguments) == 130
        assert "what was measured is kept, and the same command goes on" in capsys.readouterr().err
        assert sum(line["record"] == "segment" for line in _lines(tmp_path / "s")) == 3
        shown = _pictures(dense.requests + pruned.requests)
        dense.requests.clear()
        pruned.requests.clear()
        assert run([*arguments, "--json"]) == 0
        # The two requests that open each server are not timed.
        again = _pictures(dense.requests[2:] + pruned.requests[2:])
    assert sum(line["record"] == "segment" for line in _lines(tmp_path / "s")) == 9  # one half pair is measured again
    assert len({*shown}) > 10 and not {*shown} & {*again}


def _pictures(requests: list[tuple[dict, dict]]) -> list[str]:
    """The pictures of requests."""
    parts = [part for body, _ in requests for part in body["messages"][0]["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_the_key_is_in_no_file(asked_small, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    with FakeServer() as server:
        arguments = ["endpoints", "--dense", server.url, "--pruned-body", '{"ratio": 0.5}', *asked_small, "--json"]
        assert run([*arguments, "--key-variable", "SOME_KEY", "--out", str(tmp_path / "study")]) == 0
        assert {headers["authorization"] for _, headers in server.requests} == {"Bearer sk-very-secret"}
    assert "sk-very-secret" not in capsys.readouterr().out
    files = [path for path in (tmp_path / "study").iterdir() if path.is_file()]
    assert files and not any(b"sk-very-secret" in path.read_bytes() for path in files)
    monkeypatch.delenv("SOME_KEY")
    arguments = ["endpoints", "--dense", "http://h", "--pruned", "http://i", "--out", tmp_path / "other"]
    said = complaint(capsys, *arguments, "--key-variable", "SOME_KEY")
    assert "--key-variable SOME_KEY: this environment variable is empty" in said


def test_an_extra_that_is_missing_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for name in ("traffic.server", "traffic.opening", "run"):
        monkeypatch.delitem(sys.modules, f"trio_profile.kinds.servers.{name}", raising=False)
    arguments = ["endpoints", "--dense", "http://h", "--pruned", "http://i", "--out", tmp_path]
    said = complaint(capsys, *arguments)
    assert "endpoints needs the extra 'endpoints'" in said and install_command("endpoints") in said
    assert document(capsys, *arguments, "--dry-run")["segments"] == 48


def _lines(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "requests.jsonl").read_text().splitlines()]


# --- an error after some segments ------------------------------------------------------------------------------------


def asks_a_part(monkeypatch, segments: int, error: BaseException) -> EndpointStudy:
    """A study of servers that ends with an error after some segments, two for each pair. Nobody is asked."""
    asked_servers = prepare(EndpointStudy(dense="http://dense", pruned="http://pruned", concurrency=(1, 2), rounds=2))

    def run(study, directory, watch):
        store = RequestStore(directory, study, host.session(host.without_torch()))
        store.start()
        for number in range(segments):
            load, arm = study.loads[number // 4], ARMS[number % 2]
            segment, requests = segment_with(study, number, arm, load, 2.0 + number % 2, round=number // 2 % 2)
            store.append(*requests, segment)
        raise error

    monkeypatch.setattr(endpoints, "run", run)
    return asked_servers


def test_an_error_leaves_the_document_and_the_page_of_the_finished_pairs(tmp_path, monkeypatch):
    study = asks_a_part(monkeypatch, 5, StudyError("the pruned server fails; start it again"))
    with pytest.raises(StudyError) as caught:
        running.run(study, tmp_path / "out")
    page = tmp_path / "out" / "report.html"
    assert str(caught.value) == f"the pruned server fails; start it again; {page} shows the finished pairs"
    assert page.is_file() and not (tmp_path / "out" / STUDY).exists()
    assert [(one.load, one.rounds) for one in running.read(tmp_path / "out").document.loads] == [(1, 2)]
    with pytest.raises(StudyError, match="shows the finished pairs"):  # the same command goes on
        running.run(study, tmp_path / "out")


@pytest.mark.parametrize("segments", [0, 1])
def test_an_error_without_a_finished_pair_stays_as_it_is(segments, tmp_path, monkeypatch):
    study = asks_a_part(monkeypatch, segments, StudyError("it fails"))
    with pytest.raises(StudyError, match=r"^it fails$"):
        running.run(study, tmp_path)
    assert not (tmp_path / "report.html").exists()
