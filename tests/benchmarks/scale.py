"""How the instrument's own cost grows with cells, processes, questions and records. No model runs.

    python -m tests.benchmarks.scale [--largest] [--grows NAME]     CPU seconds of each step, and their exponents

One quantity grows at a time, the others stay small. An exponent is that of the two largest sizes: 1 is linear. Each
size has a process of its own. `--largest` adds the sizes that take minutes. `draw` is what follows the summary: the
page and its data. `report` is the whole command `trio-profile report DIR`. Plotly has 1.3 MB of a page.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {
    "cells": (1, 10, 100, 500),
    "processes": (10, 100, 1000),
    "questions": (100, 1000, 10_000),
    "records": (1000, 10_000, 100_000),
}
LARGEST = {"cells": 1000, "records": 1_000_000}
STEPS = ("plan", "write", "read", "summarise", "draw", "report")


def measure(grows: str, size: int, directory: Path) -> dict[str, tuple[float, float]]:
    """Return CPU seconds and megabytes after each step, of a study in which one quantity has this size."""
    from tests.profile import examples
    from trio_profile.records.schema import Dense, Fidelity
    from trio_profile.records.store import Store
    from trio_profile.study.kinds import find
    from trio_profile.study.running import Finished, write_page

    small = {"cells": 2, "processes": 4, "questions": 24, "records": 0} | {grows: size}
    cells = small["cells"] if grows != "records" else 10
    rounds = 12 if grows != "records" else max(size // cells // 4, 6)
    retentions = tuple(round((number + 1) / (cells + 1), 6) for number in range(cells))
    right = (True,) * small["questions"]
    told = Fidelity(kl_nats=(0.1,) * len(right), top1=right, same=right, correct=right)
    steps: dict[str, tuple[float, float]] = {}

    def step(name: str, run: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = run()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        steps[name] = (time.process_time() - begin, peak)
        return result

    study = examples.study(retentions=retentions, model="MODEL")
    made = [
        examples.in_processes(examples.measurement(retention=cell.retention, pairs=rounds), small["processes"])
        for cell in study.cells()
    ]
    seen = [
        one.model_copy(update={"cell": cell, "fidelity": told}) for one, cell in zip(made, study.cells(), strict=True)
    ]
    step("plan", lambda: list(study.blocks().values()))
    dense = Dense(**{**dict(examples.dense()), "correct": right})

    def write() -> None:
        """Write as a study does: all sessions, the counts, and then the rounds."""
        store = Store(directory)
        store.open(study, examples.session(id=examples.SESSION))
        names = dict.fromkeys(timing.session for cell in seen for timing in cell.timings)
        store.append(*(examples.session(id=name) for name in names))
        for record in (dense, *map(examples.counted, seen), *examples.rounds_of(*seen)):
            store.append(record)

    step("write", write)
    kind, page = find(study.verb), directory / "report.html"
    contents = step("read", Store(directory).read)
    document = step("summarise", lambda: kind.load("document")(contents))
    step("draw", lambda: write_page(Finished(kind, document), page))
    steps["page, MB"] = (page.stat().st_size / 1e6, 0.0)
    return steps


def report(directory: Path) -> tuple[float, float]:
    """Return the CPU seconds of the whole command `trio-profile report`. Its memory is that of the steps."""
    subprocess.run([sys.executable, "-m", "trio_profile", "report", directory], stdout=subprocess.DEVNULL, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, 0.0


def in_a_process(grows: str, size: int) -> dict[str, tuple[float, float]]:
    """The same in a process of its own, so that the peak memory is that of this size."""
    command = [sys.executable, "-m", "tests.benchmarks.scale", "--child", grows, str(size)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--grows", choices=SIZES, nargs="+", default=[*SIZES])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        with tempfile.TemporaryDirectory() as out:
            steps = measure(options.child[0], int(options.child[1]), Path(out))
            print(json.dumps(steps | {"report": report(Path(out))}))
        return
    print(f"| grows | size | {' | '.join(f'{step}, s' for step in STEPS)} | peak, MB | page, MB |")
    print("|---|---|" + "---|" * (len(STEPS) + 2))
    for grows in options.grows:
        every = (*SIZES[grows], LARGEST[grows]) if options.largest and grows in LARGEST else SIZES[grows]
        found = {size: in_a_process(grows, size) for size in every}
        for size, steps in found.items():
            seconds = " | ".join(f"{steps[step][0]:.2f}" for step in STEPS)
            print(f"| {grows} | {size:,} | {seconds} | {steps['draw'][1]:.0f} | {steps['page, MB'][0]:.2f} |")
        before, last = every[-2:]
        exponents = [
            math.log(max(found[last][step][0], 0.01) / max(found[before][step][0], 0.01)) / math.log(last / before)
            for step in STEPS
        ]
        print(f"| {grows} | exponent | {' | '.join(f'{exponent:.2f}' for exponent in exponents)} | | |")


if __name__ == "__main__":
    main()
