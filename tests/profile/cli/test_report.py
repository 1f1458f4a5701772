import subprocess
import sys

import pytest

from tests.profile.command import complaint, document
from tests.profile.kept import KEPT
from trio_profile.cli import run
from trio_profile.study.kinds import KINDS


def test_report_is_rebuilt_and_says_what_was_dropped(kept, capsys):
    before = document(capsys, "report", kept)
    assert document(capsys, "show", kept) | {"report": before["report"]} == before
    (kept / "report.html").unlink()
    assert document(capsys, "report", kept) == before
    file = kept / "measurements.jsonl"
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*lines, b'{"record": "roun']))
    assert run(["report", str(kept)]) == 0
    assert f"warning: line {len(lines) + 1} dropped" in capsys.readouterr().err


WITHOUT_TORCH = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "trio_core"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from trio_profile.cli import run
for directory in sys.argv[1:]:
    assert run(["show", directory]) == 0, directory
    assert run(["report", directory, "--json"]) == 0, directory
assert run(["export", sys.argv[1], "--format", "csv"]) == 0
assert run(["show", "nowhere"]) == 2
"""


def test_a_study_of_every_kind_is_shown_and_reported_without_torch(tmp_path):
    assert set(KEPT) == set(KINDS)
    for kind, keep in KEPT.items():
        (tmp_path / kind).mkdir()
        keep(tmp_path / kind)
    directories = [tmp_path / kind for kind in KINDS]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *directories], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [directory for directory in directories if not (directory / "report.html").is_file()] == []
    assert done.stderr.startswith("trio-profile: error: nowhere does not exist") and done.stderr.count("\n") == 1


@pytest.fixture
def kept(kept, tmp_path, monkeypatch):
    """The directory of a small sweep, and a working directory of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return kept


def test_a_page_of_somebody_else_is_kept(kept, capsys):
    page = kept / "report.html"
    page.write_text("<title>mine</title>")
    assert "was not written by trio-profile and is kept" in complaint(capsys, "report", kept)
    assert page.read_text() == "<title>mine</title>"
    assert run(["report", str(kept), "--out", str(kept.parent / "mine.html")]) == 0
    assert "trio-profile" in (kept.parent / "mine.html").read_text() and page.read_text() == "<title>mine</title>"


@pytest.mark.parametrize("left", [".leases", "measurements-gpu-0.jsonl"])
def test_a_study_of_workers_is_refused_with_what_to_do(kept, left, capsys):
    (kept / left).mkdir()
    said = complaint(capsys, "show", kept)
    assert "was measured by workers, which trio-profile no longer has: measure the study of its study.toml" in said
