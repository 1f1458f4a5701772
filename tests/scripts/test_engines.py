"""`scripts/engines`: what can be tested without an engine."""

import runpy
import socket
import sys
from pathlib import Path

import pytest

from engines import engine
from tests.profile.kinds.servers.kept import endpoints_document
from trio_profile.errors import ProfileError
from trio_profile.records.estimate import Estimate

ENGINES = Path(__file__).resolve().parents[2] / "scripts" / "engines"


@pytest.fixture(scope="module")
def repeat() -> dict:
    """The functions of the script."""
    return runpy.run_path(str(ENGINES / "repeat"))


def test_a_run_repeats_itself_and_a_shifted_gain_is_listed(repeat, capsys):
    first = repeat["estimates"](endpoints_document())
    assert repeat["compare"](first, first) == 1
    place = next(place for place in first if place.of == "gains")
    moved = first | {place: first[place].model_copy(update={"value": 99.0})}
    assert repeat["compare"](first, moved) == 1 - 1 / len(first)
    said = capsys.readouterr().out
    assert f"{' '.join(place)}: 99, first run [" in said
    assert f"{len(first) - 1} of {len(first)}" in said


def test_two_runs_agree_if_the_interval_of_their_difference_contains_0(repeat):
    """The sides that face each other are 3 and 4 long, so the runs may be 5 apart."""
    first, near, far = (Estimate(value=value, ci95=(value - 4, value + 3), samples=6) for value in (0, 5, 5.1))
    assert repeat["agree"](first, near) and repeat["agree"](near, first)
    assert not repeat["agree"](first, far)


def test_studies_without_a_common_quantity_are_refused(repeat):
    with pytest.raises(ProfileError, match="two runs of the same command"):
        repeat["compare"](repeat["estimates"](endpoints_document()), {})


# --- the servers -----------------------------------------------------------------------------------------------------

SERVER = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, signal.{ends})
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Models).serve_forever()
"""


@pytest.fixture
def port() -> str:
    """A port of the loopback that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.parametrize("ends", ["SIG_DFL", "SIG_IGN"])
@pytest.mark.slow
def test_a_server_answers_in_its_block_and_is_ended_after_it_even_if_it_does_not_listen(
    ends, port, tmp_path, monkeypatch
):
    monkeypatch.setattr(engine, "GRACE_SECONDS", 1)
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", SERVER.format(ends=ends), port]
    with engine.serving(command, address, 60, {}, tmp_path / "log"):
        assert engine.answers(address)
        with pytest.raises(SystemExit), engine.serving(command, address, 60, {}, tmp_path / "second"):
            pass
    assert not engine.answers(address)


def test_a_server_that_fails_ends_the_program_in_one_line(port, tmp_path, capsys):
    command, address = [sys.executable, "-c", "exit(3)"], f"http://127.0.0.1:{port}"
    with pytest.raises(SystemExit) as ended, engine.serving(command, address, 60, {}, tmp_path / "log"):
        pass
    assert ended.value.code == 2
    assert "did not start; its messages are in" in capsys.readouterr().err
