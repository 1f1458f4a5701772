"""`scripts/gpu`: it continues, ends what takes too long, collects wheels, and puts answers in the place of guesses.

`tests/rehearsal` asks all its questions on a pretended GPU.
"""

import json
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu"


@pytest.fixture
def script(monkeypatch):
    """The names of the script, with questions that a process answers at once. Commands are noted, not run."""
    names = runpy.run_path(str(SCRIPT))
    own = names["main"].__globals__
    own["QUESTIONS"] = {"good": (1, ()), "bad": (1, ()), "late": (1, ())}
    codes = {"good": 0, "bad": 1, "late": None}
    own["asked_names"] = asked = []

    def ask(name, options, out, environment, seconds):
        asked.append(name)
        if codes[name] == 0:
            (out / f"{name}.json").write_text("{}")
        return codes[name]

    own["_ask"], own["codes"] = ask, codes
    return SimpleNamespace(**own, own=own)


def options(out: Path, **fields) -> SimpleNamespace:
    return SimpleNamespace(**{"out": out, "minutes": 1, "wheels": None, **fields})


def test_questions_without_an_answer_are_asked_again(script, tmp_path):
    assert script.ask_all(options(tmp_path)) == 1
    script.codes["bad"] = 0
    assert script.ask_all(options(tmp_path)) == 75
    script.codes["late"] = 0
    assert script.ask_all(options(tmp_path)) == script.ask_all(options(tmp_path)) == 0
    assert script.asked_names == ["good", "bad", "late", "bad", "late", "late"]


def test_a_question_that_takes_too_long_is_ended(tmp_path):
    done = subprocess.run([SCRIPT, tmp_path, "--minutes", "0.001"], capture_output=True, text=True, check=False)
    assert done.returncode == 75, done.stderr
    assert done.stdout.count("out of time") == 9 and not list(tmp_path.glob("*.json"))


def test_the_questions_take_ten_minutes():
    done = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert sum(float(line.split()[1]) for line in lines) == 10
    assert lines[0].startswith("order") and lines[-1].startswith("layers")


def test_the_wheels_are_those_of_the_constraints_without_torch(script, tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: commands.append(command) or SimpleNamespace(returncode=0)
    )
    assert script.collect(tmp_path, "3.12") == 0
    download, made = commands
    packages = [word.partition("==")[0] for word in download if "==" in word]
    assert {"transformers", "tokenizers", "pydantic", "pytest", "scikit-image"} <= set(packages)
    # pip reads 3.12 as 3.12.0, and a package that needs 3.12.1 would not be there.
    assert download[download.index("--python-version") + 1] == "3.12.99"
    assert not {"torch", "fvcore"} & set(packages) and made[-2].startswith("fvcore==")


def test_wheels_that_cannot_be_installed_are_named(script, tmp_path):
    assert script.ask_all(options(tmp_path / "out", wheels=tmp_path)) == 2
    assert not script.asked_names and not (tmp_path / "out" / "site").exists()


def test_answers_take_the_place_of_constants(script, tmp_path):
    """Every constant that a question answers is set once, and is replaced in a copy of the source."""
    places = re.findall(r'"(\S+\.py [A-Z_]+)"', SCRIPT.read_text(encoding="utf-8"))
    assert len(places) == 3
    for place in places:
        path = Path("trio_profile", place.split()[0])
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    script.own["ROOT"] = tmp_path
    (tmp_path / "clock.json").write_text(json.dumps({"constants": dict.fromkeys(places, 0.125)}))
    (tmp_path / "order.json").write_text("{}")
    assert script.apply(tmp_path) == 0
    for place in places:
        module, name = place.split()
        assert f"\n{name} = 0.125\n" in (tmp_path / "trio_profile" / module).read_text()
