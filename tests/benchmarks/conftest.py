"""What benchmarks share. They run by `make bench`; ordinary test runs skip them.

Times on shared machines mean something only as ratios of interleaved runs: those stand in `extra_info`.
"""

import time
from collections.abc import Callable, Iterator

import pytest
import torch

from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import clock as clocks
from trio_profile.records.schema import Study
from trio_profile.stats.intervals import median, median_interval

Interleaved = Callable[[Callable[[], object], Callable[[], object], int], dict[str, object]]


class CpuClock(clocks.HostClock):
    """The CPU time of this process. Other work on the machine hardly changes it."""

    def mark(self) -> int:
        """Nanoseconds of CPU time."""
        return time.process_time_ns()


@pytest.fixture(scope="session")
def pocket() -> Workload:
    """The trained toy model."""
    return build(Study(model="pocket"))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread, then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def deep() -> Workload:
    """The paper's schedule at a laptop's size."""
    return build(Study(model="pocket-deep"))


@pytest.fixture
def interleaved(benchmark) -> Interleaved:
    """Times two calls in turn, (base, ours, rounds): the paired ratio ours / base with its interval."""
    return _in_turn(benchmark, clocks.HostClock())


@pytest.fixture
def interleaved_cpu_time(benchmark) -> Interleaved:
    """`interleaved`, by the CPU time of this process."""
    return _in_turn(benchmark, CpuClock())


def _in_turn(benchmark, clock: clocks.HostClock) -> Interleaved:
    def run(base: Callable[[], object], ours: Callable[[], object], rounds: int) -> dict[str, object]:
        ratios: list[float] = []

        def pair() -> None:
            start = clock.mark()
            base()
            middle = clock.mark()
            ours()
            ratios.append(clock.elapsed_ms(middle, clock.mark()) / clock.elapsed_ms(start, middle))

        benchmark.pedantic(pair, rounds=rounds, warmup_rounds=2)
        values = ratios[2:]
        return {"median": median(values), "ci95": list(median_interval(values)), "samples": len(values)}

    return run
