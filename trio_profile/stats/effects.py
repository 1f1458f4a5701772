"""The interval of a sum of scores of which it is known how much each question moves it.

The effects of all questions on a score sum to 0. Their spread over resampled pictures is the score's standard error
(the infinitesimal jackknife). So scores that are no means have intervals too: F1, or a total over categories.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from trio_profile.stats.intervals import cluster_quantile, design_effect
from trio_profile.stats.resampling import are_alone, cluster_spread


@dataclass(frozen=True)
class Effects:
    """How much each question moves one score.

    each: [n]. They sum to 0.
    step: how far one question can move the score. Two questions, one up and one down, are added to the sample, so that
        the interval has a width even if nothing differs [Bonett and Price 2012].
    clusters: [n], the number of each question's picture.
    """

    each: NDArray[np.float64]
    step: float
    clusters: Sequence[int]


def reach(scores: Sequence[Effects], confidence: float = 0.95) -> float:
    """Half the width of the interval of a sum of scores. Questions of one picture are drawn together.

    scores: the parts of the sum. Equal numbers of pictures in two of them mean the same picture.
    """
    each = np.concatenate([score.each for score in scores])
    clusters = [number for score in scores for number in score.clusters]
    spread = cluster_spread(each, ())
    if not are_alone(clusters):
        spread = max(spread, cluster_spread(each, clusters))
    added = sum(2 * (design_effect(score.each, score.clusters) * score.step) ** 2 for score in scores)
    return cluster_quantile(clusters, confidence) * sqrt(spread**2 + added)
