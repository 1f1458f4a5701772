import subprocess
import sys

from tests.profile.command import document
from tests.profile.documents import KEPT
from trio_profile.cli import run
from trio_profile.studies.kinds import KINDS


def test_report_is_rebuilt_and_says_what_was_dropped(sweep_arguments, tmp_path, capsys):
    before = document(capsys, *sweep_arguments, "--out", str(tmp_path))
    (tmp_path / "report.html").unlink()
    assert document(capsys, "report", str(tmp_path)) == before
    with (tmp_path / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    assert run(["report", str(tmp_path)]) == 0
    assert "warning: line 9 dropped" in capsys.readouterr().err


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
