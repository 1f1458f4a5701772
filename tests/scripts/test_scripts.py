"""`scripts/gpu` at toy size: slices that are resumed, what it leaves, its exit codes."""

import runpy
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.profile.checkpoints import save_tiny_llava
from trio_core.methods import names
from trio_profile.cli import run
from trio_profile.kinds.grid.kind import CONTROLS

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu"


def gpu(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the script did."""
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_the_toy_study_runs_once_and_what_was_packed_is_gone_on_with_elsewhere(tmp_path):
    model, work, out = save_tiny_llava(tmp_path / "checkpoint"), tmp_path / "work", tmp_path / "out"
    (work / "tests").mkdir(parents=True, exist_ok=True)
    (work / "tests" / "done").write_text("0 s")  # what is done is not run: no tests within this test
    found = gpu("--toy", model, "--work", work, "--out", out)
    assert found.returncode == 0, found.stderr + (out / "log.txt").read_text()[-2000:]
    table = (out / "table.txt").read_text()
    assert table in found.stdout
    lines = [line.split() for line in table.splitlines()]
    assert {line[0] for line in lines if line[1] == "done,"} == {"sweep", "layers", "compare"}
    assert sum(line[0] == "trio" for line in lines) == 2 + 1 + 1  # two cells and their break-even; one compared
    with tarfile.open(out / "gpu.tar.gz") as archive:
        names = archive.getnames()
    assert {"gpu/sweep/study/measurements.jsonl", "gpu/layers/study/layers.json"} <= set(names)
    assert not any(name.endswith("report.html") for name in names) and (work / "sweep/study/report.html").exists()
    assert "=== sweep" in (out / "log.txt").read_text()
    before = (work / "sweep" / "log.txt").read_bytes()
    assert gpu("--toy", model, "--work", work, "--out", out).returncode == 0
    assert (work / "sweep" / "log.txt").read_bytes() == before
    elsewhere = tmp_path / "elsewhere"
    assert gpu("--unpack", out / "gpu.tar.gz", "--work", elsewhere).returncode == 0
    found = gpu("--toy", model, "--work", elsewhere, "--out", tmp_path / "out-2", "--seconds", "0")
    assert found.returncode == 0
    assert found.stdout.strip() == (out / "table.txt").read_text().strip()
    wrong = gpu("--unpack", model, "--work", elsewhere)
    assert wrong.returncode == 2 and "cannot be unpacked" in wrong.stderr


@pytest.mark.slow
def test_a_slice_that_fails_is_named_and_the_others_run(tmp_path):
    chosen = ("--only", "layers", "--only", "compare")
    places = ("--work", tmp_path / "work", "--out", tmp_path / "out")
    found = gpu("--toy", tmp_path / "nothing", *places, *chosen)
    assert found.returncode == 1
    assert "failed: layers, compare" in found.stderr
    assert "unknown model" in (tmp_path / "out" / "log.txt").read_text()


def test_the_slices_are_listed_and_their_names_checked(tmp_path):
    listed = gpu("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()][:3] == ["tests", "next", "layers"]
    wrong = gpu("--only", "nextt", "--out", tmp_path / "out", "--work", tmp_path / "work")
    assert wrong.returncode == 2 and "no slice is called 'nextt': choose tests, next" in wrong.stderr
    assert not (tmp_path / "out").exists()
    assert "--toy" in gpu("--help").stdout


@pytest.mark.slow
def test_every_sweep_of_the_full_study_can_be_planned(capsys):
    """Names, options and retentions are right: a dry run on a CPU takes them."""
    slices = runpy.run_path(str(SCRIPT))["SLICES"]
    sweeps = [one.arguments for one in slices if one.arguments[0] == "sweep"]
    compared = [one.arguments for one in slices if one.arguments[0] == "compare"]
    assert len(sweeps) >= 6
    assert {word for arguments in compared for word in arguments} >= set(names()) - set(CONTROLS)
    for arguments in sweeps:
        assert run([*("cpu" if word == "cuda" else word for word in arguments), "--dry-run", "--json"]) == 0
