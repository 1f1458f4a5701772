"""How long an audit takes, from the file to the document, and as a process of its own.

A process includes what Python takes to start and to import: about half of it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from trio_profile.analysis.audit import audit
from trio_profile.analysis.claims_file import read


@pytest.mark.benchmark(group="audit of trio-2026")
def test_audit(benchmark):
    document = benchmark(lambda: audit(read("trio-2026")))
    benchmark.extra_info.update(figures=document.figures, findings=len(document.claims))


@pytest.mark.benchmark(group="audit of trio-2026")
def test_process(benchmark):
    line = [sys.executable, "-m", "trio_profile.cli", "audit", "trio-2026", "--json"]
    root = Path(__file__).parents[2]
    benchmark.pedantic(lambda: subprocess.run(line, cwd=root, capture_output=True, check=True), rounds=10)
    assert benchmark.stats.stats.median < 1
