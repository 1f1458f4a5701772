"""How long an audit takes: from the file to the document, and as a process of its own.

A process includes what Python takes to start and to import, which is most of it. What is asserted is processor time: on
a shared machine the clock on the wall says as much of the neighbours.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trio_profile.judge.audit.document import audit
from trio_profile.judge.audit.reader import read
from trio_profile.stats.intervals import median


@pytest.mark.benchmark(group="audit of trio-2026")
def test_audit(benchmark):
    document = benchmark(lambda: audit(read("trio-2026")))
    benchmark.extra_info.update(figures=document.figures, findings=len(document.claims))


@pytest.mark.benchmark(group="audit of trio-2026")
def test_process(benchmark):
    line = [sys.executable, "-m", "trio_profile.cli", "audit", "trio-2026", "--json"]
    seconds: list[float] = []

    def run() -> None:
        before = os.times()
        subprocess.run(line, cwd=Path(__file__).parents[2], capture_output=True, check=True)
        after = os.times()
        seconds.append(after.children_user - before.children_user + after.children_system - before.children_system)

    benchmark.pedantic(run, rounds=10)
    benchmark.extra_info.update(processor_seconds=median(seconds))
    assert median(seconds) < 1
