"""How long a report takes: to be written again, and until a browser shows it.

    .venv/bin/python -m pytest tests/benchmarks/test_page.py --benchmark-only -o addopts="-q --import-mode=importlib"

`paint` is the first contentful paint, `loaded` the load event, and `still` the end of the last task of more than 50 ms
in the two seconds after it. All are in milliseconds from the start of the navigation.
"""

from pathlib import Path

import pytest

from tests.profile.browser import CHROMIUM, MISSING, chromium, opened
from tests.profile.documents import keep, keeping, photograph, with_tokens
from tests.profile.examples import document, in_processes, measurement, study
from trio_profile.analysis.sweep import SweepDocument, from_store
from trio_profile.findings import sweep
from trio_profile.records.store import Store
from trio_profile.render import html
from trio_profile.stats.intervals import median

OPENINGS = 7
TIMES = """() => new Promise((done) => {
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  const [{ loadEventEnd }] = performance.getEntriesByType("navigation");
  let still = loadEventEnd;
  const watch = (tasks) => tasks.forEach((task) => (still = Math.max(still, task.startTime + task.duration)));
  new PerformanceObserver((seen) => watch(seen.getEntries())).observe({ type: "longtask", buffered: true });
  setTimeout(() => done([paint?.startTime ?? NaN, loadEventEnd, still]), 2000);
})"""


LARGE = study(
    methods=tuple(f"method-{number}" for number in range(25)),
    retentions=tuple(round(0.05 * step, 2) for step in range(1, 21)),
)
"""A study of 500 cells: 25 methods at 20 retentions."""


def default() -> SweepDocument:
    """A sweep with the default number of retentions, and with the tokens of a picture."""
    return with_tokens(document(study()))


def large() -> SweepDocument:
    """The study of 500 cells, with the tokens of a picture."""
    return with_tokens(document(LARGE))


STUDIES = {"default": default, "500 cells": large}


@pytest.fixture(scope="module", params=STUDIES)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def found(name: str) -> SweepDocument:
    return STUDIES[name]()


@pytest.mark.benchmark(group="a page is written")
def test_report_of_a_document(benchmark, name: str, found: SweepDocument):
    text = benchmark.pedantic(lambda: html.render(sweep.report(found)), rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(bytes=len(text.encode()))
    assert benchmark.stats.stats.median < 2 and (name != "default" or len(text.encode()) < 6_000_000)


@pytest.mark.benchmark(group="a page is written")
def test_rebuild_a_kept_study_of_500_cells(benchmark, tmp_path: Path):
    """Read, summarised and drawn, as `trio-profile report` does it: four processes with twelve pairs a cell."""
    cells = [in_processes(keeping(measurement(cell.method, cell.retention, pairs=12))) for cell in LARGE.cells()]
    keep(tmp_path, LARGE, cells).append(photograph())
    run = lambda: html.write(sweep.report(from_store(Store(tmp_path).read())), tmp_path)  # noqa: E731
    path = benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(bytes=path.stat().st_size)
    assert benchmark.stats.stats.median < 2


@pytest.mark.benchmark(group="a page is opened")
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize("width", [390, 1400])
def test_open_a_page(benchmark, name: str, found: SweepDocument, width: int, tmp_path: Path):
    pytest.importorskip("playwright.sync_api")
    path = html.write(sweep.report(found), tmp_path)
    times: list[list[float]] = []
    with chromium() as browser:

        def run() -> None:
            with opened(browser, path, width=width) as view:
                times.append(view.page.evaluate(TIMES))

        benchmark.pedantic(run, rounds=OPENINGS, warmup_rounds=1)
    paint, loaded, still = (median(one) for one in zip(*times[1:], strict=True))
    benchmark.extra_info.update(paint_ms=paint, loaded_ms=loaded, still_ms=still)
    assert still < 2000
    assert name != "default" or paint < 400
