"""Verdicts from intervals, from pairs under every noise, and the sampling that ends in one."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from tests import noise
from trio_profile.errors import MeasurementError
from trio_profile.kinds.gate.verdict import (
    LONGER,
    Measured,
    decide,
    judge,
    judge_exact,
    judge_pairs,
    settle,
    settle_in_processes,
)
from trio_profile.stats.two_way import centre_of


def test_the_verdict_follows_from_where_the_interval_lies():
    for interval, says in (
        ((1.04, 1.06), "regression"),
        ((1.02, 1.06), "inconclusive"),
        ((0.98, 1.02), "pass"),
        ((0.98, 1.03), "inconclusive"),
        ((1.03, 1.06), "inconclusive"),
        ((0.90, 0.95), "improved"),
        ((0.90, 0.98), "pass"),
        ((7.5, 8.2), "regression"),
    ):
        assert decide(interval, 1.03) == says


def test_more_pairs_of_processes_are_asked_unless_the_first_passes():
    """A pair differs from the others as its processes do, so one that is much slower is not enough."""
    same, slower, much, faster = 1.0, 1.06, 1.3, 0.9
    for sides, says in (
        ([same], "pass"),
        ([slower, 1.05, 1.07, 1.06, 1.06], "regression"),
        ([slower, same, same, slower, same], "inconclusive"),
        ([much, same, 1.01, 0.99, same], "inconclusive"),
        ([faster, same, 0.99, 1.01, same], "inconclusive"),
        ([faster, 0.91, 0.9, 0.92, 0.9], "improved"),
    ):
        numbers = list[int]()

        def once(number, sides=sides, numbers=numbers):
            numbers.append(number)
            times = [1.0, 1.01] * 12, [sides[number], sides[number] * 1.01] * 12
            return judge_pairs("ms", "here", *times), times

        found, times = settle_in_processes(once)
        assert found.ci95 is not None
        assert (found.verdict, decide(found.ci95, 1.03), numbers) == (says, says, [*range(len(sides))])
        assert [len(side) for side in times] == [24 * len(sides)] * 2


def test_processes_that_differ_seldom_make_unchanged_code_red():
    """Pairs of the same code that differ by 5 %, as on two cores of which one is slower: at most 2.5 % are red."""
    generator = np.random.default_rng(5)

    def once(_):
        times = [1.0, 1.01] * 12, [float(np.exp(0.05 * generator.standard_normal()))] * 24
        return judge_pairs("ms", "here", *times), times

    red = sum(settle_in_processes(once)[0].verdict == "regression" for _ in range(400))
    assert red <= 10


def test_exact_quantities_fail_on_any_growth():
    for base, new, says, ratio in (
        *((10, 11, "regression", 1.1), (10, 10, "pass", 1.0)),
        *((10, 9, "improved", 0.9), (0, 1, "regression", None)),
    ):
        verdict = judge_exact("kv_bytes", "here", base, new)
        assert (verdict.verdict, verdict.ratio) == (says, ratio)


@pytest.mark.parametrize(("ratio", "says"), [(1.0, "pass"), (1.10, "regression"), (0.8, "improved")])
@pytest.mark.parametrize("model", noise.MODELS)
def test_verdicts_on_pairs_hold_under_every_noise(model, ratio, says):
    base, new = noise.pairs(np.random.default_rng(1), model, 150, ratio)
    verdict = judge_pairs("prefill_ms", "here", list(base), list(new))
    assert verdict.verdict == says
    assert verdict.ci95 is not None and verdict.ratio is not None
    assert verdict.ci95[0] <= verdict.ratio <= verdict.ci95[1]


def test_samples_that_cannot_be_judged_are_refused():
    for base, new, says in (
        ([1.0] * 5, [1.0] * 5, "5 samples: a verdict needs 6"),
        ([1.0] * 6, [1.0] * 7, "no pairs"),
        ([1.0] * 6, [1.0] * 5 + [float("nan")], "nan"),
        ([1.0] * 6, [0.0] * 6, "which is impossible"),
        ([5e-324] * 6, [1.0] * 6, "a time of 4.94066e-324 ms, which is impossible"),
        ([1.0] * 6, [1e300] * 6, r"a time of 1e\+300 ms, which is impossible"),
    ):
        with pytest.raises(MeasurementError, match=says):
            judge_pairs("prefill_ms", "here", base, new)


def test_a_whole_number_that_no_file_can_hold_is_refused():
    """Its ratio is not finite."""
    for base, new in ((1, 10**400), (10**400, 1), (-(2**63), 1)):
        with pytest.raises(MeasurementError, match=r"kept of here has .* bits: at most 63 can be compared"):
            judge_exact("kept", "here", base, new)


MACHINE = 0.0125
"""The spread of the state of a CPU machine."""


def study(generator, count, ratio=1.0, spread=0.02, machine=0.0) -> Measured:
    """The ratio of a cell in a study of several processes of eight rounds. spread: between the processes."""
    middles = ratio * np.exp(spread * generator.standard_normal(count))
    return Measured(centre_of([list(middle * noise.steady(generator, 8)) for middle in middles], machine), machine)


def test_the_ratio_of_two_studies_is_welchs():
    """Logs 0, 0.02, 0.04 and 0.06 against 0.1 more: the error is √2 · 0.0129, with 6 degrees of freedom."""
    logs = np.array([0.0, 0.02, 0.04, 0.06])
    base, new = (Measured(centre_of([[one] for one in np.exp(logs + more)]), 0.0) for more in (0.0, 0.1))
    found = judge("x", "here", base, new)
    oracle = ttest_ind(logs + 0.1, logs, equal_var=False).confidence_interval(0.95)
    assert found.ci95 == pytest.approx(np.exp([oracle.low, oracle.high]))
    assert (found.ratio, found.samples, found.sessions) == (pytest.approx(np.exp(0.1)), 4, 4)
    assert found.verdict == ("regression" if found.ci95[0] > 1.03 else "inconclusive")


def test_an_inconclusive_verdict_says_whether_longer_studies_may_decide_it():
    """A state of the machine that spreads by 1.25 % hides a ratio near the bound, however long both are measured."""
    generator = np.random.default_rng(6)
    first = judge("x", "here", study(generator, 4, spread=0.03), study(generator, 4, 1.12, spread=0.03))
    assert (first.verdict, first.note) == ("inconclusive", LONGER)
    aware = [study(generator, 8, ratio, 0.003, MACHINE) for ratio in (1.0, 1.06)]
    hidden = judge("x", "here", *aware)
    assert hidden.verdict == "inconclusive"
    assert hidden.note is not None and "time both versions in turn" in hidden.note


def test_intervals_of_studies_that_share_no_state_of_the_machine_hold_their_label():
    """Each study has eight processes, which spread by 1 %, and a state of the machine, which spreads by 1.25 %."""
    generator = np.random.default_rng(7)

    def measured() -> Measured:
        state = float(np.exp(MACHINE * generator.standard_normal()))
        return study(generator, 8, state, 0.01, MACHINE)

    found = [judge("x", "here", measured(), measured()).ci95 for _ in range(300)]
    holding = sum(ends is not None and ends[0] <= 1 <= ends[1] for ends in found)
    assert holding >= 0.925 * 300


def sampler(model, ratio, seed: int | np.random.Generator = 0, most=192):
    base, new = noise.pairs(np.random.default_rng(seed), model, most, ratio)
    taken = 0

    def sample(n):
        nonlocal taken
        taken += n
        return list(base[taken - n : taken]), list(new[taken - n : taken])

    return sample


def test_sampling_stops_when_the_interval_is_narrow():
    verdict, _ = settle(sampler("steady", 1.0), "prefill_ms", "here")
    assert (verdict.verdict, verdict.stopped) == ("pass", "converged")
    assert verdict.samples < 192


def test_sampling_ends_when_its_time_is_spent():
    verdict, _ = settle(sampler("steady", 1.03), "prefill_ms", "here", seconds=1e-9)
    assert (verdict.verdict, verdict.stopped, verdict.samples) == ("inconclusive", "budget", 12)


def test_sampling_that_stays_inconclusive_ends_with_a_note():
    verdict, _ = settle(sampler("steady", 1.03, most=96), "prefill_ms", "here", pairs=96)
    assert (verdict.verdict, verdict.stopped, verdict.samples) == ("inconclusive", "budget", 96)
    assert verdict.note == "still inconclusive after 96 pairs"


def test_studies_are_judged_by_the_spread_between_their_processes():
    """Eight processes a side, which spread by 2 %: no false alarm, and slow-downs of 12 % are found."""
    generator = np.random.default_rng(5)
    says = {
        ratio: [judge("x", "here", study(generator, 8), study(generator, 8, ratio)).verdict for _ in range(40)]
        for ratio in (1.0, 1.12)
    }
    assert {*says[1.0]} <= {"pass", "inconclusive"}
    assert {*says[1.12]} <= {"regression", "inconclusive"} and says[1.12].count("regression") > 0.9 * 40
