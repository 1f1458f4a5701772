import json
import os
import subprocess
import sys
from pathlib import Path

import trio_profile
from tests.places import PYTHONPATH
from tests.profile.cli.test_streams import shell
from tests.profile.command import complaint
from tests.profile.kinds.audit.auditing import HOSTILE, hostile_claims
from trio_profile.cli import run
from trio_profile.inputs.claims.claims import TEMPLATE, read
from trio_profile.kinds.audit.document import AuditDocument
from trio_profile.kinds.audit.run import audit


def test_strict_exits_with_1_for_a_contradicted_figure(capsys, tmp_path: Path):
    assert run(["audit", "trio-2026", "--strict", "--json"]) == 1
    assert run(["audit", "visionzip", "--strict"]) == 0
    assert run(["audit", "llava-1.5-flops", "--strict"]) == 0  # open is not inconsistent


def test_a_template_is_written_once(tmp_path: Path, capsys):
    path = tmp_path / "mine.yaml"
    assert run(["audit", "--new", str(path)]) == 0
    assert path.read_text() == TEMPLATE.read_text()
    assert run(["audit", str(path), "--strict"]) == 0
    capsys.readouterr()
    path.write_text("mine")
    assert "exists already" in complaint(capsys, "audit", "--new", path)
    assert path.read_text() == "mine"


def test_bad_input_is_one_line_and_exit_2(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, says in (
        ([], "name a claims file, or one of dart"),
        (["trio-2026", "--new", "x.yaml"], "without CLAIMS"),
        (["trio-2026", "--json", "--latex"], "name one"),
        (["trio-2026", "--dry-run"], "audit measures nothing"),
        (["trio-2026", "--gpu", "abacus"], "device 'abacus' has no peak on our list"),
        (["trio-2026", "--measured", "nowhere"], "nowhere holds no measurements.jsonl"),
        (["trio-2026", "--out", "/dev/null/x"], "cannot make /dev/null/x"),
    ):
        assert says in complaint(capsys, "audit", *arguments)
        assert list(tmp_path.iterdir()) == []


def test_an_audit_imports_nothing_slow(tmp_path: Path):
    code = (
        "import sys; from trio_profile.cli import run; "
        "codes = [run(['audit', 'trio-2026', *more]) for more in (['--latex'], ['--out', 'out', '--json'])]; "
        "heavy = {'torch', 'transformers', 'scipy', 'numpy', 'trio_core.pruning'} & set(sys.modules); "
        "assert not heavy and not any(codes), (heavy, codes)"
    )
    here = {**os.environ, "PYTHONPATH": PYTHONPATH}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=here)
    assert done.returncode == 0, done.stderr


def test_one_document_with_the_names_that_scripts_rely_on(capsys):
    assert run(["audit", "trio-2026", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"format", "version", "environment", "study"} <= set(document)
    assert document["format"] == "trio-profile"
    names = {"where", "quantity", "printed", "recomputed", "verdict", "convention", "why"}
    verdicts = {"supported", "overstated", "understated", "not_comparable", "underdetermined"}
    assert all(names <= set(one) and one["verdict"] in verdicts for one in document["claims"])
    assert document["tally"] == {"overstated": 1, "not_comparable": 14, "underdetermined": 10, "supported": 72}
    assert AuditDocument.model_validate({**document, "sessions": (), "conclusion": None}) == audit(read("trio-2026"))
    assert document["conclusion"]["word"] == "contradict"
    [session] = document["sessions"]
    assert session["command"] and session["started"]


def test_names_stay_text_in_the_report(tmp_path: Path, capsys):
    assert run(["audit", str(hostile_claims(tmp_path)), "--out", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    html = Path(document["report"]).read_text()
    assert "<b>" not in html and html.count("</script>") == html.count("<script")
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["paper"] == f"PRUNE: {HOSTILE}"


def test_an_audit_from_python():
    assert set(trio_profile.audit_paper("visionzip").tally) == {"supported"}


def test_printed_figures_stand_on_the_page(kept, capsys):
    assert run(["report", str(kept), "--claims", "trio-2026"]) == 0
    assert "llava-1.5-7b" in capsys.readouterr().out
    assert "Printed and measured" in (kept / "report.html").read_text()


def test_a_closed_pipe_is_no_error_and_a_judge_still_says_no():
    assert shell("trio-profile audit trio-2026 --strict | head -1")[::2] == (1, "")
