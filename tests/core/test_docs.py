"""docs/tutorials/your-method.md: what it tells a user to write is written, and run as it says."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profile.checkpoints import VISUAL_TOKENS, save_tiny_llava
from trio_core.methods.method import registry
from trio_core.methods.view import Signal
from trio_core.models.adapter import Adapter, families
from trio_profile.cli import run

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "your-method.md").read_text()
FILES = dict(re.findall(r'```python title="(mypkg/\w+\.py)"\n(.*?)```', PAGE, flags=re.DOTALL))
"""The code that the page names a file for."""


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """The package of the page, importable; what it registers is forgotten afterwards."""
    before = dict(registry)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    registry.clear()
    registry.update(before)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        del sys.modules[name]


def test_its_tests_pass(package):
    tests = importlib.import_module("mypkg.test_mine")
    for name in re.findall(r"^def (test_\w+)\(\)", FILES["mypkg/test_mine.py"], flags=re.MULTILINE):
        getattr(tests, name)()


# --- run as the page says --------------------------------------------------------------------------------------------


def document(capsys, *arguments: str) -> dict:
    """Run a verb with --json; its one document."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    return str(save_tiny_llava(tmp_path_factory.mktemp("checkpoint")))


@pytest.mark.slow
def test_flops_takes_it_by_its_path(package, capsys, checkpoint):
    asked = ["--retention", "0.5", "--new-tokens", "1", "-o", "power=2"]
    flops = document(capsys, "flops", "--method", "mypkg.mine:Mine", "--model", checkpoint, *asked)
    assert (flops["method"], flops["layers"], flops["residual_macs"]) == ("mypkg.mine:Mine", [2], 0)
    terms = {term["name"]: term["macs"] for term in flops["terms"]}
    assert terms["selection, as declared"] == VISUAL_TOKENS * 32
    assert terms.get("selection, counted less declared", 0) == 0


# --- what the tables say ---------------------------------------------------------------------------------------------


def test_every_signal_has_its_row():
    rows = re.findall(r"^\| `([A-Z]+)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(rows) == sorted(signal.name for signal in Signal)


@pytest.mark.parametrize(("signal", "tower"), [("ENCODER", "tower"), ("PIXELS", "thin_tower")])
def test_the_families_of_a_signal_of_the_tower_are_those_that_have_it(signal, tower):
    named = re.search(rf"^\| `{signal}` .*\| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert named is not None
    having = {name for name, adapter in families.items() if getattr(adapter, tower) is not getattr(Adapter, tower)}
    assert set(named[1].split(", ")) == having
