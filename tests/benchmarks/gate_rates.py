"""How often the gate gives a false alarm, and how often it catches a slowdown: an experiment on simulated noise.

Each comparison is sampled and judged by the gate's own rule (`verdict.settle`). It is compared with the usual practice:
run one revision many times, then the other as often, and compare the two means with a threshold of 3 %. This is tried
twice: on a machine that does not change, and as two jobs on shared machines. Two such jobs of the same code differ by
up to 26 % [field.md, headline 9]. A quarter of this serves as the standard deviation of the difference.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests import noise
from trio_profile.gate.verdict import MAX_RATIO, Verdict, settle
from trio_profile.records.schema import Record

SLOWER = 1.05
PRECISION = 0.01
MOST_PAIRS = 192
_JOBS_DIFFER = 0.065


class Naive(Record):
    """The rates of the usual practice (two means and a threshold), as shares of all comparisons."""

    false_alarms: float
    caught: float


class Rates(Record):
    """The gate's rates for one kind of noise, as shares of all comparisons.

    model: the kind of noise.
    comparisons: number of comparisons.
    false_alarms: regressions reported when nothing has changed.
    inconclusive: inconclusive verdicts when nothing has changed.
    at_bound: regressions reported when the true ratio is the bound itself.
    caught: regressions reported for a 5 % slowdown.
    reached: share of those comparisons whose interval became as narrow as 1 %.
    caught_reached: regressions reported among these.
    pairs: pairs sampled on average when nothing has changed.
    naive, naive_jobs: the usual practice, within one job and as two jobs.
    """

    model: str
    comparisons: int
    false_alarms: float
    inconclusive: float
    at_bound: float | None
    caught: float
    reached: float
    caught_reached: float
    pairs: float
    naive: Naive
    naive_jobs: Naive


@dataclass(frozen=True)
class _Compared:
    verdict: Verdict
    naive: bool
    naive_jobs: bool

    @property
    def regressed(self) -> bool:
        return self.verdict.verdict == "regression"

    @property
    def narrow(self) -> bool:
        found = self.verdict
        assert found.ci95 is not None and found.ratio is not None
        return found.ci95[1] - found.ci95[0] <= 2 * PRECISION * found.ratio


def experiment(
    comparisons: int,
    models: Sequence[str] | None = None,
    *,
    most: int = MOST_PAIRS,
    with_bound: bool = False,
    seed: int = 0,
) -> Iterator[Rates]:
    """The rates for each kind of noise, one after the other.

    comparisons: for each kind of noise and each true ratio.
    models: kinds of noise; all if None.
    most: the most pairs of a comparison.
    with_bound: also try a true ratio equal to the bound, which takes longest.
    """
    for number, model in enumerate(models or noise.MODELS):
        generator = np.random.default_rng([seed, number])

        def many(ratio: float, model: str = model, generator: np.random.Generator = generator) -> list[_Compared]:
            return [_compare(generator, model, ratio, most) for _ in range(comparisons)]

        same, slower = many(1.0), many(SLOWER)
        narrow = [found for found in slower if found.narrow]
        yield Rates(
            model=model,
            comparisons=comparisons,
            false_alarms=_share(found.regressed for found in same),
            inconclusive=_share(found.verdict.verdict == "inconclusive" for found in same),
            at_bound=_share(found.regressed for found in many(MAX_RATIO)) if with_bound else None,
            caught=_share(found.regressed for found in slower),
            reached=len(narrow) / comparisons,
            caught_reached=_share(found.regressed for found in narrow),
            pairs=float(np.mean([found.verdict.samples for found in same])),
            naive=Naive(
                false_alarms=_share(found.naive for found in same), caught=_share(found.naive for found in slower)
            ),
            naive_jobs=Naive(
                false_alarms=_share(found.naive_jobs for found in same),
                caught=_share(found.naive_jobs for found in slower),
            ),
        )


def _compare(generator: np.random.Generator, model: str, ratio: float, most: int) -> _Compared:
    """One comparison by the gate's rule, and by two means over as many runs."""
    base, new = noise.pairs(generator, model, most, ratio)
    taken = 0

    def sample(n: int) -> tuple[list[float], list[float]]:
        nonlocal taken
        taken += n
        return base[taken - n : taken].tolist(), new[taken - n : taken].tolist()

    verdict = settle(sample, "run_ms", model, precision=PRECISION, most=most)
    before, after = (noise.MODELS[model](generator, verdict.samples).mean() for _ in range(2))
    jobs = np.exp(_JOBS_DIFFER * generator.standard_normal())
    apart = ratio * after / before
    return _Compared(verdict, naive=bool(apart > MAX_RATIO), naive_jobs=bool(jobs * apart > MAX_RATIO))


def kept_promises(rates: Sequence[Rates]) -> bool:
    """Whether the gate is as good as promised.

    That is at most 1 % false alarms (or one comparison), and 95 % caught where the interval reached 1 %.
    """
    return all(
        found.false_alarms * found.comparisons <= max(1, 0.01 * found.comparisons)
        and (found.reached == 0 or found.caught_reached >= 0.95)
        for found in rates
    )


def _share(found: Iterable[bool]) -> float:
    """The share of true values; 0 if there are none."""
    return float(np.mean([*found] or [False]))
