import json
import os
import subprocess
import sys
from typing import get_args

import pytest

from tests.profile.command import complaint
from trio_profile.cli import run
from trio_profile.cli.verbs import commands
from trio_profile.records.files import STUDY
from trio_profile.records.schema import Header, Study
from trio_profile.records.store import Store, to_toml
from trio_profile.study.kind import Group
from trio_profile.study.kinds import KINDS

SERVERS = ("endpoints", "--dense", "http://127.0.0.1:9", "--pruned", "http://127.0.0.1:8")
"""Two servers that are not there."""


def test_the_verbs_stand_in_groups():
    found: dict[str, list[str]] = {}
    for name, group, _ in commands():
        found.setdefault(group, []).append(name)
    assert list(found) == [group for group in get_args(Group) if group in found]
    assert set(KINDS) <= {name for names in found.values() for name in names}


def test_a_bare_command_prints_the_help_and_nothing_else(capsys):
    assert run(["--help"]) == 0
    asked = capsys.readouterr()
    assert run([]) == 0
    assert capsys.readouterr() == (asked.out, "")


def test_the_version_is_that_of_the_distribution(capsys):
    from importlib.metadata import version

    assert run(["--version"]) == 0
    assert capsys.readouterr() == (f"trio-profile {version('trio-profile')}\n", "")


def test_a_verb_that_does_not_exist_names_the_nearest(capsys):
    assert complaint(capsys, "swep").endswith("Did you mean 'sweep'?")


REFUSED_AT_ONCE = [
    (["sweep", "--bogus"], "--bogus"),
    (["sweep", "--promt", "1"], "(Possible options: --out, --prompt)"),
    (["show"], "see `trio-profile show --help`"),
    (["sweep", "--retention", "11"], "less than or equal to 1; did you mean 0.11?"),
    (["show", "nowhere", "--strict"], "--strict is for `show --doubts`"),
    (["sweep", "--retention", "0"], "retention 0"),
    (["sweep", "--retention", "half"], "--retention 'half'"),
    (["sweep", "--layers", "1,40", "--retention", "0.5"], "(1, 40)"),
    (["sweep", "--model", "nonesuch"], "unknown model 'nonesuch'"),
    (["sweep", "--method", "fastw"], "unknown method 'fastw'"),
    (["sweep", "--image", "nowhere.png"], "nowhere.png' does not exist"),
    (["sweep", "--device", "warp"], "device 'warp'"),
    (["sweep", "--pixels", "0,64"], "pixels = (0, 64): give two whole numbers in order"),
    (["endpoints"], "no server is named: give --dense URL, and --pruned URL or --pruned-body JSON"),
    (["endpoints", "--dense", "h:80", "--pruned", "http://h"], "--dense 'h:80' is no address of a server"),
    (["endpoints", "--dense", "http://h:99999", "--pruned", "http://h"], "--dense 'http://h:99999' is no address"),
    (["endpoints", "--dense", "http://me:secret@h", "--pruned", "http://h"], "host h: an address is kept"),
    (["endpoints", "--dense", "http://h", "--pruned-body", "{"], "--pruned-body '{' is not JSON"),
    (["endpoints", "--dense", "http://h", "--pruned-body", "[1]"], "--pruned-body '[1]' is no JSON object"),
    ([*SERVERS, "--concurrency", "0"], "concurrency.0 = 0: input should be greater than or equal to 1"),
    ([*SERVERS, "--pictures", "nowhere"], "nowhere cannot be read: No such file or directory"),
    (["audit", "trio-2062"], "claims 'trio-2062' are not built in"),
    (["sweep", "--study", "/dev/zero"], "is a device, not a regular file"),
    (["sweep", "--seed", "9" * 5000], "--seed"),
    (["sweep", "--method", "[red]x[/red]"], "'[red]x[/red]'"),
    (["sweep", "--method", "\x1b[31m\u202e\n"], "\\x1b[31m"),
    (["show", "\x1b[31mred\nline"], "\\x1b[31mred line does not exist"),
]
"""Command lines that are refused without torch, and a part of what is said."""
REFUSED_BY_TORCH = [
    (["sweep", "-o", "threshold=" + "[" * 5000], "threshold"),
    (["sweep", "--retention", "0.02"], "lowest possible is 0.0642"),
    (["sweep", "-o", "k_pos=half"], "k_pos = 'half' of trio: input should be a valid integer"),
    (["sweep", "--attention", "magic", "--dry-run"], "attention 'magic'"),
    (["sweep", "--device", "cuda:7"], "cuda:7"),
]
"""Command lines that only the classes or a model can refuse."""
IN_ONE_PROCESS = """
import contextlib, io, json, sys
from trio_profile.cli import run
seen = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    seen.append((code, out.getvalue(), err.getvalue(), "torch" in sys.modules))
print(json.dumps(seen))
"""


def test_bad_input_is_one_line_and_exit_2_before_torch_is_imported(tmp_path):
    verbs = {name for name, _, _ in commands()}
    cases = [([*line, *_out(line, tmp_path)], says) for line, says in REFUSED_AT_ONCE if line[0] in verbs]
    kept = Store(tmp_path / "kept")
    kept.directory.mkdir()
    kept.begin(Header(study=Study(seed=3)))
    (kept.directory / STUDY).write_text(to_toml(Study(seed=3)))
    cases += [
        (["sweep", "--out", str(kept.directory)], "holds another study: seed (3 there, 0 here)"),
        (["sweep", "--model", "nobody/nothing"], "model 'nobody/nothing' cannot be loaded"),
    ]
    command = [sys.executable, "-c", IN_ONE_PROCESS, json.dumps([line for line, _ in cases])]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=offline)
    for (arguments, says), (code, out, err, has_torch) in zip(cases, json.loads(done.stdout), strict=True):
        assert (code, out, has_torch) == (2, "", False), (arguments, err)
        assert says in err and err.startswith("trio-profile: error: ") and len(err.splitlines()) == 1, err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "says"), REFUSED_BY_TORCH)
def test_what_the_classes_refuse_is_one_line_too(arguments, says, tmp_path, capsys):
    in_this_process = ["--processes", "1"] if arguments[0] == "sweep" else []
    assert says in complaint(capsys, *arguments, *_out(arguments, tmp_path), *in_this_process)
    assert not (tmp_path / "out").exists()


def _out(arguments, tmp_path):
    return ["--out", str(tmp_path / "out")] if arguments[0] in ("sweep", "endpoints") else []


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from trio_profile.cli import run; code = run(['--help']); "
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'yaml'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sweep" in done.stdout
