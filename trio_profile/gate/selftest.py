"""Does the gate cry wolf, and does it see? The A/A and power experiment, on simulated noise whose truth is known.

Each comparison is sampled and judged by the real rule (`gate.settle`). Beside it stands what is usually done: as many
runs of one revision, then as many of the other, and their means compared with a threshold of 3 %; once on a machine
that stays as it was, and once as two jobs on shared machines. Two jobs of the same code there differ by up to 26 %
[field.md, headline 9]; as one standard deviation of the difference a quarter of that is taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trio_profile.gate.verdict import MAX_RATIO, Verdict, settle
from trio_profile.records.schema import Record
from trio_profile.stats import noise

SLOWER = 1.05
PRECISION = 0.01
MOST_PAIRS = 192
_JOBS_DIFFER = 0.065


class Naive(Record):
    """What two means and a threshold make of the same: shares of all comparisons."""

    false_alarms: float
    caught: float


class Rates(Record):
    """Of one noise model: shares of all comparisons.

    false_alarms: regressions found where there is none; at_bound: where the truth is the bound itself. caught: of a 5 %
    slowdown. reached: of those comparisons, the share in which the budget allowed a 1 % interval; caught_reached: what
    was caught of them. pairs: how many were sampled where there was nothing to find, on average.
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
    """The rates of each noise model, as soon as it is done.

    most: pairs that a comparison may take. with_bound: try also a truth that is the bound itself, which takes longest.
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
    """One comparison by our rule, and by two means of as many runs as it took."""
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
    """At most 1 % false alarms (one comparison, in short forms), and 95 % caught where 1 % was reached."""
    return all(
        found.false_alarms * found.comparisons <= max(1, 0.01 * found.comparisons)
        and (found.reached == 0 or found.caught_reached >= 0.95)
        for found in rates
    )


def _share(found: Iterable[bool]) -> float:
    """Of nothing it is 0."""
    return float(np.mean([*found] or [False]))
