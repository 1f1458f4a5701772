"""Run cases as processes of their own: closed, full and broken streams, odd encodings, a removed working directory."""

import os
import random
import subprocess
import sys
import tempfile
from shlex import quote

from tests.fuzz.cases import Case, Corpus
from tests.fuzz.in_process import faults_in, is_json
from tests.places import PYTHONPATH

OUTPUTS = (
    *[
        "",
        "> /dev/null",
        "> /dev/full",
        ">&-",
        "| head -1",
        "| head -c 3",
        "| true",
        "> out.txt",
        "2>&-",
        "2> /dev/full",
    ],
    *(">&- 2>&-", "> /dev/full 2> /dev/full", "<&-", "<&- >&- 2>&-", "2>&1 | head -1", "< /dev/zero"),
)
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    *({}, {}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "cp1252"}),
    *({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    *({"COLUMNS": "1"}, {"COLUMNS": "0"}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONWARNINGS": "error"}, {"TERM": "dumb"}),
    *({"HOME": "/nowhere"}, {"TMPDIR": "/nowhere"}),
    *({"FORCE_COLOR": "1"}, {"PYTHONIOENCODING": "utf-16"}, {"PYTHONOPTIMIZE": "2"}),
)
WHOLE = ("", "2>&-", "2> /dev/full", "<&-", "< /dev/zero")
"""The redirections that leave standard output whole."""
SECONDS = 120
"""A process that takes longer hangs."""
_GONE = "mkdir gone && cd gone && rmdir ../gone && "


def process_faults(corpus: Corpus, seed: int) -> tuple[Case, int, list[str]]:
    """Run a command in a process of its own. Return the case, the exit code and what is wrong with how it ended."""
    rng = random.Random(seed)
    arguments = _arguments(corpus, rng)
    output, environment = rng.choice(OUTPUTS), rng.choice(ENVIRONMENTS)
    gone = rng.random() < 0.1 and "out.txt" not in output  # the shell cannot write there either
    line = f"{_GONE if gone else ''}{quote(sys.executable)} -m trio_profile {' '.join(map(quote, arguments))} {output}"
    with tempfile.TemporaryDirectory() as place:
        judges = arguments[0] == "gate" or "--strict" in arguments
        shown = Case((*arguments, output, str(environment), "(removed directory)" if gone else ""), judges)
        try:
            done = subprocess.run(
                ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
                cwd=place,
                env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
                capture_output=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return shown, -1, [f"takes more than {SECONDS} s"]
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    out, err = (text.decode(encoding, "replace") for text in (done.stdout, done.stderr))
    return shown, done.returncode, _faults(shown, done.returncode, out, err, output, environment)


def _faults(one: Case, code: int, out: str, err: str, output: str, environment: dict[str, str]) -> list[str]:
    """What is wrong. Where standard error is not seen or has colours, the count of error lines says nothing."""
    lost_json = code == 0 and output in WHOLE and "--json" in one.arguments and not is_json(out)
    faults = ["standard output is not one JSON document"] if lost_json else []
    odd = environment.get("PYTHONIOENCODING") == "utf-16" or "FORCE_COLOR" in environment
    if "2>" in output or odd:
        faults += [] if code in (0, 2) or (code == 1 and one.judges) else [f"exit code {code}"]
        return faults + (["a traceback"] if "Traceback (most" in out + err else [])
    faults += faults_in(Case(tuple(arg for arg in one.arguments if arg != "--json"), one.judges), code, out, err)
    if ("full" in output or ">&-" in output) and code == 0:
        faults.append("standard output was lost, and the exit code is 0")
    return faults


def _arguments(corpus: Corpus, rng: random.Random) -> list[str]:
    kept, study = str(corpus.directory / "kept-sweep"), str(corpus.directory / "study")
    form = rng.choice(([], ["--json"], ["--markdown"], ["--latex"]))
    plain = ("--help", "--version", "sweep --help", "swep", "show", f"show {'a' * 300}", "show nowhere")
    return rng.choice(
        (
            *(line.split() for line in plain),
            *(["show", kept, *form], ["show", kept, "--all"], ["check", kept, *form], ["check", kept, "--strict"]),
            *(["gate", study, study], ["audit", "trio-2026", *form], ["audit", "trio-2026", "--strict"]),
            *(["gate", "a\udcff", "b"], ["methods", *form]),
        )
    )
