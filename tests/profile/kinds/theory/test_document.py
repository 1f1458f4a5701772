"""Correlations and counts, by hand and against scipy."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.profile.kinds.theory.kept import removal
from trio_profile.kinds.theory import document as analysis
from trio_profile.kinds.theory.document import Removal
from trio_profile.stats.resampling import draws


def test_rank_correlation_equals_scipys():
    draw = np.random.default_rng(0)
    x, y = draw.integers(6, size=(2, 5, 20)).astype(float)
    expected = [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(analysis.rank_correlation(x, y), expected)
    assert np.isnan(analysis.rank_correlation(np.ones(4), np.arange(4.0)))


def test_tokens_above_the_mean_and_the_top_are_counted_by_hand():
    current = np.array([[1.0, 2.0, 3.0, 10.0], [5.0, 5.0, 5.0, 5.0], [9.0, 9.0, 9.0, 1.0]])
    last = np.array([[1.0, 2.0, 3.0, 10.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    layers = analysis.by_depth([current, current], [last, last])
    assert [layer.above_mean.value for layer in layers] == [1, 0, 3]
    assert [layer.top_overlap.value for layer in layers] == [1, 1, 0]  # ties go to the lower index
    assert layers[1].last_layer_agreement is None  # nothing varies
    assert layers[0].above_mean.ci95 == (1, 1) and layers[0].above_mean.samples == 2
    # The top 11 % of 20 are 2.
    x, y = np.arange(20.0), np.array([*range(18), 30.0, 5.5])
    assert analysis.top_overlap(x, y) == 0.5


def test_shares_above_the_mean_equal_those_of_a_plain_loop():
    """Pictures of several sizes, three questions about each, two benchmarks, and one with too few questions."""
    draw = np.random.default_rng(4)
    current = [draw.gamma(0.5, size=(2, 8 + 4 * (q // 3))) for q in range(33)]
    pictures, names = [q // 3 for q in range(33)], ["pope"] * 15 + ["gqa"] * 12 + ["few"] * 3 + [""] * 3
    layers = analysis.by_depth(current, current, 5, pictures, names)
    groups = {"": range(33), "pope": range(15), "gqa": range(15, 27)}
    for index, layer in enumerate(layers):
        assert set(layer.above_mean_share_by_benchmark) == set(layer.above_mean_by_benchmark) == {"pope", "gqa"}
        for name, own in groups.items():
            counts, shares = [], []
            for question in own:
                saliency = current[question][index]
                counts.append(sum(1 for value in saliency if value > sum(saliency) / len(saliency)))
                shares.append(counts[-1] / len(saliency))
            found = layer.above_mean_share_by_benchmark[name] if name else layer.above_mean_share
            count = layer.above_mean_by_benchmark[name] if name else layer.above_mean
            assert found is not None and found.value == pytest.approx(np.mean(shares))
            assert count.value == pytest.approx(np.mean(counts)) and count.samples == found.samples == len(own)
            clusters = [pictures[question] for question in own]
            means = [np.mean([shares[drawn] for drawn in row]) for row in draws(len(own), 1000, 5, clusters)]
            assert found.ci95 == pytest.approx(np.quantile(means, [0.025, 0.975]))


def test_benchmarks_count_their_questions_pictures_and_tokens():
    names, tokens, pictures = ["pope", "pope", "gqa", ""], [8, 12, 8, 8], [0, 1, 0, 2]
    pope, gqa = analysis.benchmarks(names, tokens, pictures)
    assert (pope.name, pope.questions, pope.pictures, pope.visual_tokens) == ("pope", 2, 2, (8, 12))
    assert (gqa.name, gqa.questions, gqa.pictures, gqa.visual_tokens) == ("gqa", 1, 1, (8, 8))
    assert analysis.benchmarks(["pope"] * 4, tokens, pictures) == analysis.benchmarks([""] * 4, tokens) == ()


def test_agreement_that_grows_with_depth_has_a_positive_trend():
    last = [np.tile(np.arange(5.0), (4, 1))] * 3
    grows = [np.array([[4.0, 3, 2, 1, 0], [1, 0, 4, 2, 3], [0, 1, 2, 4, 3], [0, 1, 2, 3, 4]])] * 3
    found = analysis.agreement_trend(grows, last)
    assert found is not None and (found.value, *found.ci95, found.samples) == pytest.approx((1, 1, 1, 3))
    falls = analysis.agreement_trend([one[[2, 1, 0, 3]] for one in grows], last)
    assert falls is not None and falls.value == pytest.approx(-1)
    assert analysis.agreement_trend([one[:2] for one in grows], [one[:2] for one in last]) is None  # one layer below
    assert analysis.agreement_trend([np.ones((4, 5))] * 3, last) is None


def test_correlations_of_a_stage_equal_those_of_a_plain_loop():
    draw = np.random.default_rng(1)
    removals = [removal(q, kept, *draw.random(3)) for q in range(12) for kept in (5, 9) for _ in range(4)]
    found = analysis.stage(1, [*removals, removal(0, 5, 1, 1, 1, layer=2)])

    def rho(some, term="bound"):
        return spearmanr([getattr(one, term) for one in some], [one.kl_nats for one in some]).statistic

    def those(q, kept=None):
        return [one for one in removals if one.question == q and kept in (None, one.kept)]

    assert found.kept == (5, 9) and len(found.removals) == 96
    for ours, expected in (
        (found.spearman, rho(removals)),
        (found.within_question, np.mean([rho(those(q)) for q in range(12)])),
        (found.same_kept, np.mean([rho(those(q, kept)) for q in range(12) for kept in (5, 9)])),
        (found.norms_same_kept, np.mean([rho(those(q, kept), "norms") for q in range(12) for kept in (5, 9)])),
    ):
        assert ours is not None and ours.value == pytest.approx(expected) and ours.samples == 12
        assert ours.ci95[0] < ours.value < ours.ci95[1]
    assert found.least_constant == max(one.kl_nats / one.bound for one in removals)
    assert all(one.kl_nats <= found.least_constant * one.bound * (1 + 1e-12) for one in removals)


def test_intervals_resample_questions_and_not_removals():
    """What a question says twice as often is no more certain."""
    values = np.random.default_rng(2).random((2, 15, 8))
    once, twice = (
        analysis.stage(1, [removal(q, 5, a, 1, b) for q in range(15) for a, b in some[:, q].T])
        for some in (values, np.concatenate([values, values], axis=-1))
    )
    assert once.spearman is not None and twice.spearman is not None
    assert (once.spearman.value, *once.spearman.ci95) == pytest.approx((twice.spearman.value, *twice.spearman.ci95))
    assert once.norms_same_kept is None


def test_questions_about_one_picture_are_resampled_together():
    """Four copies of each question are worth no more than one."""
    values = np.random.default_rng(3).random((20, 8, 2))
    copied = [removal(4 * q + copy, 5, a, 1, b) for q in range(20) for copy in range(4) for a, b in values[q]]
    pictures = np.repeat(np.arange(20), 4).tolist()
    alone = analysis.stage(1, [removal(q, 5, a, 1, b) for q in range(20) for a, b in values[q]])
    together, apart = analysis.stage(1, copied, pictures=pictures), analysis.stage(1, copied)
    widths = [np.ptp(one.within_question.ci95) for one in (alone, together, apart) if one.within_question]
    assert widths[1] == pytest.approx(widths[0], rel=0.15) and widths[2] < 0.65 * widths[0]


def test_a_question_without_a_value_is_left_out_with_its_picture():
    values = np.array([np.nan, 1.0, 2.0, 4.0])
    found = analysis.mean(analysis.MeanShare, values, 0, [0, 0, 1, 1])
    assert found is not None and (found.value, found.samples) == (pytest.approx(7 / 3), 3)


def test_nothing_removed_leaves_nothing_to_correlate():
    found = analysis.stage(1, [removal(q, 9, 0, 0, 0) for q in range(10) for _ in range(3)])
    assert found.spearman is found.within_question is found.same_kept is found.least_constant is None


def test_there_is_no_constant_if_a_term_of_zero_has_a_divergence():
    removals = [
        Removal(question=q, layer=1, selection="trio", kept=3, bound=bound, norms=1.0, kl_nats=kl)
        for q, (bound, kl) in enumerate([(0.0, 1.0), (1.0, 2.0), (2.0, 1.0)])
    ]
    assert analysis.stage(1, removals).least_constant is None
    assert analysis.stage(1, removals).median_ratio == 1.25
    still = [removals[0].model_copy(update={"kl_nats": 0.0}), *removals[1:]]
    assert analysis.stage(1, still).least_constant == 2.0
