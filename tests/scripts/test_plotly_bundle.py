"""`scripts/plotly_bundle`: the script that draws figures is that of its record, and has its licence."""

import json
import runpy
from pathlib import Path

import pytest

from trio_profile.report import html

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "plotly_bundle"))
SOURCE = json.loads(SCRIPT["SOURCE"].read_text())


def test_the_bundle_has_the_recorded_hash_and_version_and_its_licence_beside_it():
    content = html.PLOTLY.read_bytes()
    assert not SCRIPT["differs"](content, SOURCE)
    assert f"plotly.js (finance - minified) v{SOURCE['version']}" in content[:200].decode()
    assert "Permission is hereby granted, free of charge" in (html.PLOTLY.parent / "LICENSE").read_text()


def renew_with(content: bytes, monkeypatch, place: Path, version: str = SOURCE["version"], asked: str = "") -> int:
    """Renew a copy of the bundle by other content, as if npm had brought it. asked: a tag instead of the version."""
    (place / "source.json").write_text(json.dumps(SOURCE))
    changes = {
        "PLACE": place,
        "SOURCE": place / "source.json",
        "download": lambda _: (
            {"plotly-finance.min.js": content, "LICENSE": b"MIT"},
            {"version": version, "integrity": "x"},
        ),
    }
    for name, value in changes.items():
        monkeypatch.setitem(SCRIPT["renew"].__globals__, name, value)
    return SCRIPT["renew"](asked or version)


@pytest.mark.parametrize("asked", [SOURCE["version"], "latest"])
def test_a_recorded_release_with_another_hash_is_not_written(asked, monkeypatch, tmp_path, capsys):
    assert renew_with(b"changed", monkeypatch, tmp_path, asked=asked) == 1
    assert f"not {SOURCE['sha256']}" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["source.json"]


def test_another_release_is_written_with_its_licence_and_hash(monkeypatch, tmp_path):
    assert renew_with(b"new", monkeypatch, tmp_path, "9.9.9") == 0
    written = json.loads((tmp_path / "source.json").read_text())
    assert written["version"] == "9.9.9" and not SCRIPT["differs"](b"new", written)
    assert {file.name for file in tmp_path.iterdir()} == {"source.json", "plotly-finance.min.js", "LICENSE"}


def test_a_release_that_cannot_be_had_is_named(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert SCRIPT["renew"]("9.9.9") == 2
    assert "plotly.js 9.9.9 could not be downloaded with npm" in capsys.readouterr().err


def test_a_record_that_is_missing_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["plotly_bundle"])
    for name, value in {"PLACE": tmp_path, "SOURCE": tmp_path / "source.json"}.items():
        monkeypatch.setitem(SCRIPT["main"].__globals__, name, value)
    assert SCRIPT["main"]() == 2
    assert "--renew VERSION brings one" in capsys.readouterr().err
