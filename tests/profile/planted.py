"""Faults that are planted into the code that concludes, and the law that catches each of them.

    python -m tests.profile.planted [WORDS]    all faults, or those with these words in their names

Each fault replaces a piece of text in a copy of trio_profile. The ordinary run of the law must fail with each of them,
and pass with none. It takes 5 to 20 seconds a fault.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

KINDS = ("gate", "audit", "theory", "layers", "evaluation", "servers", "grid", "flops")
"""The folders with a law, the quickest first."""


class Fault(NamedTuple):
    """A piece of a module, and what stands there instead."""

    name: str
    module: str
    right: str
    wrong: str


FAULTS = (
    Fault(
        "swapped bound: a gain with decoding that is only possible is shown",
        "judge/deploy",
        "(self.whole is None or self.whole[0] > 1)",
        "(self.whole is None or self.whole[1] > 1)",
    ),
    Fault(
        "swapped bound: `at least` prints the upper end",
        "judge/deploy",
        'at_least(best.gain[0])}")\n    if',
        'at_least(best.gain[1])}")\n    if',
    ),
    Fault(
        "swapped bound: a loss that is only possible is excluded",
        "judge/deploy",
        "self.loss[1] <= TOLERATED",
        "self.loss[0] <= TOLERATED",
    ),
    Fault("swapped bound: slow by the lower end", "judge/deploy", "self.gain[1] <= MATTERS", "self.gain[0] <= MATTERS"),
    Fault(
        "`any` for `all`: one cell that does not pay is enough",
        "judge/deploy",
        "if not possible:",
        "if len(possible) < len(candidates):",
    ),
    Fault(
        "guard left out: decoding",
        "judge/deploy",
        "self.is_slow or self.is_slow_with_decoding or self.loses",
        "self.is_slow or self.loses",
    ),
    Fault("guard left out: a doubt", "judge/deploy", "candidate.pays and not candidate.is_doubted", "candidate.pays"),
    Fault("guard left out: answers without evidence", "judge/deploy", "if evidence.answers:", "if False:"),
    Fault(
        "guard left out: dense is never right",
        "judge/evidence",
        "if dense.value == 0:",
        'if dense.value == 0:\n        return ""\n    if dense.value == 0:',
    ),
    Fault(
        "guard left out: dense is hardly ever right", "judge/evidence", "if dense.ci95[0] <= TOLERATED:", "if False:"
    ),
    Fault("guard left out: chance", "judge/evidence", "chance is not None and", "False and"),
    Fault("guard left out: random weights", "judge/evidence", "if random or dense is None:", "if dense is None:"),
    Fault(
        "a control recommended",
        "kinds/grid/verdict",
        "return [cell for cell in contents.done if cell.remark != CONTROL]",
        "return contents.done",
    ),
    Fault("each cell has a level of its own", "kinds/grid/verdict", "= joint(len(cells)), level", "= 0.95, level"),
    Fault("guard left out: one process", "kinds/grid/verdict", "if len(cell.timings) < 2:", "if False:"),
    Fault(
        "others that are faster are not told",
        "judge/deploy",
        "if any(candidate.gain[0] > 1 for candidate in candidates):",
        "if False:",
    ),
    Fault("a control of an evaluation recommended", "kinds/evaluation/document", "and row.remark != CONTROL]", "]"),
    Fault("a gain at one load for all", "judge/deploy", "gain=(min(candidate.gain[0]", "gain=(max(candidate.gain[0]"),
    Fault("guard left out: nothing was pruned", "kinds/servers/advice", "if is_unpruned(document):", "if False:"),
    Fault(
        "guard left out: an unfinished study",
        "kinds/servers/advice",
        "if document.pairs_left:\n        pairs",
        "if False:\n        pairs",
    ),
    Fault(
        "one-sided: a variant that is worse",
        "judge/claims",
        "in answers.items() if not low <= 0 <= high",
        "in answers.items() if low > 0",
    ),
    Fault(
        "a difference that is not shown",
        "judge/claims",
        "in speeds.items() if not low <= 1 <= high",
        "in speeds.items() if low != 1",
    ),
    Fault(
        "inconclusive before regression",
        "judge/claims",
        '("regression", "inconclusive", "improved"',
        '("inconclusive", "regression", "improved"',
    ),
    Fault(
        "a contradiction follows",
        "judge/claims",
        '"contradict" if contradict else',
        '"contradict" if contradict > 1 else',
    ),
    Fault("guard left out: an operator that was missed", "judge/claims", "    if missed:", "    if False:"),
    Fault(
        "swapped bound: the claim is excluded by the lower end",
        "judge/claims",
        "self.measured[1] < self.claimed",
        "self.measured[0] < self.claimed",
    ),
    Fault(
        "`any` for `all`: one retention holds",
        "judge/claims",
        '"not decided" if undecided else',
        '"not decided" if len(undecided) == len(prefills) else',
    ),
    Fault("`any` for `all`: one stage holds", "judge/claims", "len(holding) == len(stages)", "holding"),
    Fault(
        "guard left out: few questions",
        "kinds/theory/document",
        "None if same is None or same.samples < FEWEST else same",
        "same",
    ),
)


def caught_by(package: Path) -> list[str]:
    """The tests of the law that fail with this package."""
    # Without -P the working directory would come before the copy.
    paths = [f"tests/profile/kinds/{kind}/test_law.py" for kind in KINDS]
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-k", "refutes", "-p", "no:cacheprovider", *paths]
    environment = os.environ | {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}", "LAW_DOCUMENTS": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED tests/profile/kinds/(\w+)/test_law.py::(\w+)", done.stdout, re.MULTILINE)
    assert done.returncode == bool(failed), done.stdout + done.stderr
    return [f"{kind}: {test.removeprefix('test_').replace('_', ' ')}" for kind, test in failed]


def main() -> int:
    """Print which test catches each fault. Returns 1 if one is not caught."""
    with TemporaryDirectory() as directory:
        package = Path(directory) / "trio_profile"
        for name in ("trio_core", "trio_profile"):  # trio_profile refuses the core of another folder
            shutil.copytree(ROOT / name, package.parent / name, ignore=shutil.ignore_patterns("__pycache__"))
        assert not caught_by(package), "the law fails without a fault"
        print("fault | caught by", flush=True)
        faults = [fault for fault in FAULTS if " ".join(sys.argv[1:]) in fault.name]
        missed = 0
        for fault in faults:
            path = package / f"{fault.module}.py"
            right = path.read_text()
            assert right.count(fault.right) == 1, f"{fault.name}: {right.count(fault.right)} places"
            path.write_text(right.replace(fault.right, fault.wrong))
            caught = caught_by(package)
            path.write_text(right)
            missed += not caught
            print(f"{fault.name} | {', '.join(caught) or 'NOTHING'}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
