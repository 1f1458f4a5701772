import json
import re
import shutil
import signal
import subprocess
import sys

import httpx2
import pytest

from tests.docs.blocks import ROOT, read
from tests.places import PYTHONPATH
from tests.profile.command import complaint
from tests.profile.extras.serve.serving import messages
from trio_profile import optional
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.installation import missing_extra


@pytest.fixture
def process(tmp_path):
    """The program with these options, and the address that it prints."""
    started: list[subprocess.Popen] = []

    def start(*arguments: str) -> tuple[subprocess.Popen, str, str]:
        command = [sys.executable, "-m", "trio_profile", "serve", *arguments, "--port", "0", "--device", "cpu"]
        environment = {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": ""}
        one = subprocess.Popen(
            command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(one)
        assert one.stdout is not None
        line = one.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
        assert found is not None, one.communicate()
        return one, line.replace(found[0], "URL"), found[0]

    yield start
    for one in started:
        one.kill()
        one.communicate()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl: apt-get install curl")
def test_the_two_lines_of_the_readme_get_an_answer(process):
    first, second = next(
        block for block in read(ROOT / "README.md") if "trio-profile serve" in block.text
    ).text.splitlines()
    _, _, url = process(*first.removeprefix("trio-profile serve ").split())
    asked = second.replace("http://127.0.0.1:8000/v1", url).replace("curl ", "curl --silent ")
    said = subprocess.run(["bash", "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    details = found["usage"]["prompt_tokens_details"]
    assert found["choices"][0]["message"]["content"] == "5"
    assert (details["image_tokens"], details["image_tokens_before"]) == (192, 576)


@pytest.mark.slow
def test_ctrl_c_ends_a_request_that_would_take_minutes(process):
    server, line, url = process("pocket", "--method", "trio", "--retention", "0.222", "-o", "k_pos=3")
    assert line == "pocket, pruned by trio at 22.2 %: URL; Ctrl-C stops the server\n"
    question = exam(1)[0]
    long = {"ignore_eos": True, "max_tokens": 100_000, "stream": True}
    body = {"messages": messages(question.text, question.picture()), **long}
    with httpx2.stream("POST", f"{url}/chat/completions", json=body, timeout=60) as stream:
        lines = stream.iter_lines()
        next(lines)
        server.send_signal(signal.SIGINT)
        said = json.loads([line for line in lines if line][-1].removeprefix("data: "))
        assert said["error"]["message"] == "the server stops"
    out, err = server.communicate(timeout=60)
    assert out == "" and err.endswith("trio-profile: interrupted\n")
    assert server.returncode == 130


def test_bad_input_is_one_line_and_exit_2(capsys):
    for arguments, says in (
        ((), "Missing argument 'MODEL'"),
        (("pocket", "--retention", "0.5"), "--retention needs --method: name one, such as --method trio"),
        (("pocket", "--host", "192.0.2.1"), "host '192.0.2.1' with port 0: "),
        (("pocket", "--port", "70000"), "port must be 0-65535"),
    ):
        port = () if "--port" in arguments else ("--port", "0")
        assert says in complaint(capsys, "serve", *arguments, *port)


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr(optional, "find_spec", lambda name: None if name == "uvicorn" else object())
    line = complaint(capsys, "serve", "pocket")
    assert line.endswith(missing_extra("serve", "serve", "not installed: uvicorn"))


@pytest.mark.slow
def test_what_the_process_cannot_serve_is_one_line(capsys):
    """It is found in the process that loads the model."""
    line = complaint(capsys, "serve", "pocket", "--method", "trio", "--retention", "0.02", "--port", "0")
    assert "model 'pocket' cannot be served: " in line and "lowest possible is 0.0642" in line


@pytest.mark.slow
def test_only_known_names_are_answered(process):
    _, _, url = process("pocket", "--allow-host", "Box.Example", "--allow-host", "other.example")
    for host, status in (("box.example:80", 200), ("other.example", 200), ("evil.example", 403)):
        assert httpx2.get(f"{url}/models", headers={"Host": host}).status_code == status
