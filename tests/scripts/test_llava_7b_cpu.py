"""`scripts/llava_7b_cpu` on a tiny checkpoint. Its commands run in this process, which has torch already."""

import contextlib
import io
import json
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.profile.checkpoints import save_tiny_llava
from trio_core.methods import names
from trio_profile.cli import run
from trio_profile.engine import measuring
from trio_profile.kinds.grid import run as local
from trio_profile.profilers import flops_counted

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "llava_7b_cpu"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module. It compares TRIO with the controls only, and fvcore does not count."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_loader("llava_7b_cpu", SourceFileLoader("llava_7b_cpu", str(SCRIPT)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.PEERS) < set(names())
    monkeypatch.setattr(module, "PEERS", ())
    monkeypatch.setattr(flops_counted, "fvcore", lambda *_: (None, "not asked"))
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    monkeypatch.setattr(subprocess, "run", _in_this_process(subprocess.run))
    return module


def _in_this_process(known: Any) -> Any:
    """`subprocess.run`, but the commands of trio-profile run here."""

    def call(command: list[str], **more: Any) -> Any:
        if command[1:3] != ["-m", "trio_profile"]:
            return known(command, **more)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = run(command[3:])
        return subprocess.CompletedProcess(command, code, printed.getvalue(), "")

    return call


def call(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["llava_7b_cpu", *map(str, arguments)])
    return script.main()


@pytest.mark.slow
def test_a_study_that_was_interrupted_goes_on_and_the_readme_has_all_tables(script, tmp_path, monkeypatch, capsys):
    checkpoint = save_tiny_llava(tmp_path / "checkpoint")
    toy = ("--model", checkpoint, "--retention", "0.4,0.8", "--seconds", "0.01", "--out", tmp_path)
    count, counted = measuring.count, []

    def interrupted_later(*arguments: Any) -> Any:
        counted.append(arguments)
        if len(counted) == 3:
            raise KeyboardInterrupt
        return count(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "count", interrupted_later)
        assert call(script, monkeypatch, *toy) == 130
    kept = (tmp_path / "sweep" / "measurements.jsonl").read_bytes()
    assert kept.count(b'"record":"measurement"') == 2
    assert not json.loads((tmp_path / "runs.json").read_text())["sweep"]["done"]

    assert call(script, monkeypatch, *toy) == 0
    assert (tmp_path / "sweep" / "measurements.jsonl").read_bytes().startswith(kept)
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert set(runs) == {"sweep", "layers", "saliency", "compare"} and all(one["done"] for one in runs.values())
    readme = (tmp_path / "README.md").read_text()
    for begin in ("| processor | ", "| trio | 39.8 % ", "| random | 80.1 % ", "| tail | ", "| downsample | "):
        assert f"\n{begin}" in readme, begin
    assert "\nclaimed " in readme and "measured, sum of the parts" in readme

    other = ("--model", checkpoint, "--retention", "0.5", "--out", tmp_path)
    for tables in ((), ("--tables",)):
        assert call(script, monkeypatch, *other, *tables) == 2
    assert "sweep holds 'sweep --model" in capsys.readouterr().err

    (tmp_path / "README.md").write_text(readme.replace("# LLaVA", "What I saw.\n\n# LLaVA"))
    monkeypatch.setattr(local._Run, "measure", None)  # nothing is measured again
    assert call(script, monkeypatch, *toy) == 0
    assert (tmp_path / "README.md").read_text() == "What I saw.\n\n" + readme


def test_a_study_that_fails_is_named(script, tmp_path, monkeypatch, capsys):
    assert call(script, monkeypatch, "--model", tmp_path / "none", "--only", "layers", "--out", tmp_path / "out") == 2
    assert "llava_7b_cpu: layers failed with exit code 2" in capsys.readouterr().err
