"""What the local engine costs beside the measurements: sessions, the store, progress. CPU time, in one process."""

import time
from collections.abc import Callable
from itertools import groupby
from statistics import median
from typing import Any

import pytest
from trio_profile.stats.stopping import LEAST_SAMPLES
from trio_profile.studies.measuring import measure, warm_up

from trio_profile.engine.counting import count, measure_dense
from trio_profile.engine.plan import PlannedCell, resolve
from trio_profile.inputs.picture import picture_of
from trio_profile.profilers import fidelity, latency, power
from trio_profile.progress import ignore
from trio_profile.records.schema import Study
from trio_profile.studies import measuring

ROUNDS = 6
ASKED = Study(
    model="pocket",
    methods=("trio", "random"),
    retentions=(0.1, 0.4),
    processes=1,
    cell_seconds=1e-3,
    fidelity_inputs=10,
)
"""So little time that each cell takes the least number of pairs."""


def _block(planned: PlannedCell) -> tuple[float, int]:
    """Return the key of the cells that are timed in turn, as the engine does."""
    return ASKED.block(planned.cell)


def bare() -> None:
    """Measure the cells, and keep nothing."""
    plan = resolve(ASKED, keep_refusals=False)
    warm = warm_up(plan, None, ignore, asks=True)
    measure_dense(plan.workload, ASKED.seed, warm.clock, reference=warm.reference)
    picture_of(plan.workload, keep=False)
    settled_ms = None
    for planned in plan.cells:
        count(plan.workload, planned, ASKED)
        power.measure(plan.workload, planned.method)
        if warm.reference is not None:
            fidelity.measure(planned.method, warm.reference, lambda *_: None)
    for _, block in groupby(sorted(plan.cells, key=_block), _block):
        cells = list(block)
        for _, times in latency.measure(
            plan.workload,
            [planned.method for planned in cells],
            precision=ASKED.precision,
            seconds=[ASKED.cell_seconds] * len(cells),
            seed=ASKED.seed,
            least=LEAST_SAMPLES,
            settled_ms=settled_ms,
            clock=warm.clock,
        ):
            settled_ms = median(pair.dense_prefill_ms for pair in times.pairs)


@pytest.mark.benchmark(group="engine")
def test_the_local_engine_over_a_bare_loop(interleaved_cpu_time, one_thread, tmp_path, benchmark, monkeypatch):
    """CPU time of the engine / that of the bare loop, in turn. Both warm up for the same number of rounds."""
    monkeypatch.setattr(latency, "_agree", lambda *_: True)
    directories = (tmp_path / str(number) for number in range(10 * ROUNDS))

    def engine() -> None:
        measure(ASKED, next(directories), ignore, command="benchmark")

    ratio = interleaved_cpu_time(bare, engine, ROUNDS)
    benchmark.extra_info.update(engine_over_bare_loop=ratio, cells=len(ASKED.cells()))


@pytest.mark.benchmark(group="engine")
def test_the_share_of_the_local_engine(benchmark, one_thread, tmp_path, monkeypatch):
    """CPU time of a study outside of what measures / all of it. It varies less than a ratio of two runs."""
    measured = [0.0]

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return call(*given, **named)
            finally:
                measured[0] += time.process_time() - start

        return run

    def timed_steps(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            steps = call(*given, **named)
            while (step := timed(next)(steps, None)) is not None:
                yield step

        return run

    for name in ("resolve", "warm_up", "measure_dense", "picture_of", "count", "open_session"):
        monkeypatch.setattr(measuring, name, timed(getattr(measuring, name)))
    monkeypatch.setattr(power, "measure", timed(power.measure))
    monkeypatch.setattr(fidelity, "measure", timed(fidelity.measure))
    monkeypatch.setattr(latency, "measure", timed_steps(latency.measure))
    spent: list[float] = []

    def engine() -> None:
        start = time.process_time()
        measure(ASKED, tmp_path / "study", ignore, command="benchmark")
        spent.append(time.process_time() - start)

    benchmark.pedantic(engine, rounds=1)
    benchmark.extra_info.update(engine_share=1 - measured[0] / spent[0], seconds=spent[0])
