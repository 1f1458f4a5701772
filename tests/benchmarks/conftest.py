"""What benchmarks share. They run by `make bench`; ordinary test runs skip them.

Times on shared machines mean something only as ratios of interleaved runs: those stand in `extra_info`.
"""

from collections.abc import Callable

import pytest

from trio_profile.profilers.clock import HostClock
from trio_profile.stats.intervals import median, median_interval


@pytest.fixture
def interleaved(benchmark) -> Callable[[Callable[[], object], Callable[[], object], int], dict[str, object]]:
    """Times two calls in turn, (base, ours, rounds): the paired ratio ours / base with its interval."""
    clock = HostClock()

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
