"""FitPrune: fit and prune, fast and training-free visual token pruning (arXiv 2409.10197)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View, last_rows
from trio_core.rules.attention import attend_each
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, Schedule, check_layers, check_retention
from trio_core.rules.selection import top_k
from trio_core.tensors import ScoresN

BLOCK = 128
"""Rows of attention that are held at a time."""

DELETED: dict[int, tuple[int, ...]] = {
    10: (0, 0, 1, 2, 1, 0, 1, 4, 5, 5, 11, 4, 2, 2, 0, 0, 1, 1, 2, 4, 2, 10, 1, 1, 1, 2, 1, 1, 0, 1, 0, 0),
    20: (0, 0, 3, 3, 1, 1, 4, 16, 14, 15, 24, 4, 2, 3, 2, 0, 6, 0, 5, 13, 4, 19, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0),
    30: (0, 0, 7, 6, 4, 5, 16, 40, 24, 21, 24, 4, 2, 3, 4, 0, 16, 0, 11, 26, 6, 32, 3, 1, 0, 1, 2, 2, 4, 0, 0, 0),
    40: (0, 1, 21, 13, 14, 11, 41, 53, 29, 15, 14, 5, 1, 4, 5, 1, 26, 1, 13, 28, 6, 27, 2, 1, 0, 0, 1, 1, 2, 0, 0, 0),
    50: (3, 7, 49, 24, 29, 17, 59, 41, 26, 8, 10, 6, 2, 5, 7, 2, 30, 3, 13, 27, 5, 23, 2, 1, 0, 0, 1, 1, 2, 0, 0, 0),
    55: (6, 17, 69, 31, 34, 19, 59, 30, 23, 6, 8, 7, 2, 5, 8, 2, 29, 4, 12, 25, 4, 19, 2, 1, 0, 0, 1, 0, 1, 0, 0, 0),
    60: (14, 33, 89, 36, 36, 20, 55, 21, 18, 4, 7, 5, 2, 5, 7, 4, 26, 5, 11, 24, 4, 18, 2, 1, 0, 0, 1, 0, 1, 0, 0, 0),
    70: (48, 79, 118, 41, 33, 17, 36, 9, 9, 2, 3, 2, 1, 3, 4, 8, 18, 7, 8, 20, 4, 13, 2, 1, 0, 0, 1, 0, 1, 0, 0, 0),
    80: (128, 127, 118, 35, 26, 8, 13, 3, 2, 1, 0, 0, 0, 2, 1, 8, 7, 8, 5, 11, 2, 6, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0),
    90: (262, 153, 80, 19, 13, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 1, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
}
"""Tokens deleted in each of LLaVA-1.5's 32 layers, of 576, by the percentage of the work that goes.

ywh187/FitPrune, modeling_llama.py. The layers run on 541, 493, 424, 362, 302, 274, 245, 188, 131 and 73 tokens on
average.
"""


@dataclass(frozen=True, kw_only=True)
class FitPrune(Method):
    """Drop after every layer the tokens of the least attention, from the words times from the picture itself.

    How many go where follows the released tables, which were fitted offline to the attention that a model loses: the
    tables' curves of what is left are read at the layer's share of the depth, and between the two tables whose layer
    averages lie around the retention, in proportion. Below the last table, the curve is on its way to dropping all
    after the first layer. A stage where nothing goes costs nothing.
    """

    name: ClassVar[str] = "fitprune"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="Fit and Prune: Fast and Training-free Visual Token Pruning for Multi-modal Large Language Models",
        arxiv="2409.10197",
        repository="ywh187/FitPrune",
        commit="d28e418c920912b20dc888325651ecc6e214e6a1",
        note="Its code drops inside a layer, before the output projection; here behind the layer, which runs its "
        "projection and FFN on the tokens that go. Its tables are LLaVA-1.5's; other depths and averages are stretched "
        "and mixed from them. Ties keep the lower index.",
    )

    def default_layers(self, num_layers: int) -> Layers:
        """After every layer but the last."""
        if num_layers < 2:
            raise OptionError(f"num_layers {num_layers}: pruning between layers needs at least 2")
        return tuple(range(1, num_layers))

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """The tables' curve at the retention, rounded so that the sum over the layers is met as integers allow."""
        if self.budgets is not None:
            return super().schedule(visual_tokens, num_layers)
        assert self.retention is not None
        layers = self.default_layers(num_layers) if self.layers is None else self.layers
        check_layers(layers, num_layers)
        check_retention(self.retention)
        runs = [layers[0], *(later - earlier for earlier, later in pairwise((*layers, num_layers)))]

        def measure(left: list[float]) -> float:
            """The share of a curve that the retention is one of."""
            if self.budget_rule == "average":
                return sum(run * share for run, share in zip(runs, [1.0, *left], strict=True)) / num_layers
            return left[0 if self.budget_rule == "after-prune" else -1]

        curves = [[_left(percent, 32 * layer / num_layers) for layer in layers] for percent in (0, *DELETED)]
        curve = _between([*curves, [0.0] * len(layers)], measure, self.retention)
        solve = {
            "average": Schedule.average,
            "after-prune": partial(Schedule.keeping, stage=0),
            "final": partial(Schedule.keeping, stage=-1),
        }[self.budget_rule]
        return solve(
            retention=self.retention,
            visual_tokens=visual_tokens,
            num_layers=num_layers,
            layers=layers,
            proportion=[max(1, round(share * 2**20)) for share in curve],
        )

    def select(self, view: View) -> Selection:
        """Sum what tokens receive, block by block, words' rows first; rank by the product; ties to the lower index."""
        most = max(picture.text_after for picture in view.pictures)
        words_BT = last_rows(view.valid, most, padded=view.padded)
        blocks = (*words_BT.split(BLOCK, dim=1), *view.visual.split(BLOCK, dim=1))
        wide, start = torch.promote_types(view.hidden.dtype, torch.float32), 0
        sums = [view.hidden.new_zeros(2, len(picture.rows), dtype=wide) for picture in view.pictures]
        for attended in attend_each(view.probed("current"), blocks, view.valid):
            weights_BHPS = attended.by_query_head()
            for b, picture in enumerate(view.pictures):
                # All rows in a line, a sample's own lie side by side: its words end at `most`, its picture begins.
                low, high = most - picture.text_after - start, most + len(picture.rows) - start
                rows_HPN = weights_BHPS[b, :, max(low, 0) : max(high, 0)].index_select(2, picture.rows)
                sums[b][int(start >= most)] += received(rows_HPN)
            start += attended.rows
        scores = tuple(rating(cross, own / len(own)) for cross, own in sums)
        return Selection(tuple(top_k(s, p.budget) for s, p in zip(scores, view.pictures, strict=True)), scores)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the rows of all visual tokens and of the words behind them."""
        rows = sizes.visual + sizes.text_after
        return sizes.tokens * shape.hidden * shape.kv_width + rows * (shape.hidden + sizes.tokens) * shape.query_width


@torch.no_grad()
def received(attention: Tensor) -> ScoresN:
    """[N] what each visual token gets from some rows, from each by the head that gives it most.

    ywh187/FitPrune at d28e418. attention: [H, P, N], the rows' weights at the visual tokens. What all rows give is the
    sum over any blocks of them.
    """
    return attention.amax(dim=0).sum(dim=0)


@torch.no_grad()
def rating(cross: ScoresN, own: ScoresN) -> ScoresN:
    """[N], the least of which is dropped first: cross · own. ywh187/FitPrune at d28e418.

    cross: [N], what a visual token gets from the words behind the picture. own: [N], what it gets from an average
    visual token.
    """
    return cross * own


@torch.no_grad()
def fit_prefix(mass: ScoresN, alpha: float, whole: float | Tensor) -> Tensor:
    """[N], True at the tokens of least mass that may go: the longest run for which at most α of the whole is lost.

    ywh187/FitPrune at d28e418, its offline fit. What earlier layers have taken counts as lost: `whole` is the mass of
    all tokens in the un-pruned model. Of equal masses the higher index goes first, as in a choice.

    mass: [N], of the tokens that are left; alpha: in [0, 1]; whole: at least the sum of `mass`.
    """
    if not 0 <= alpha <= 1:
        raise OptionError(f"alpha {alpha} is outside [0, 1]")
    order = mass.argsort(descending=True, stable=True).flip(0)
    left = mass.sum() - mass[order].cumsum(dim=0)
    return torch.zeros_like(order, dtype=torch.bool).index_copy(0, order, left >= (1 - alpha) * whole)


def fit_deletions(
    cross: ScoresN, own: ScoresN, alpha: float, whole_cross: float | Tensor, whole_own: float | Tensor
) -> Tensor:
    """[N], True at the tokens that one layer's fit deletes at tolerance α: those that may go by both kinds of mass.

    The fit lowers α by bisection until the layers that are run on what is left cost what was asked for; a table counts
    the deletions, averaged over its pictures.
    """
    return fit_prefix(cross, alpha, whole_cross) & fit_prefix(own, alpha, whole_own)


def _left(percent: int, depth: float) -> float:
    """The share of the tokens that a table leaves after `depth` of 32 layers, between layers in proportion."""
    deleted = DELETED.get(percent, (0,) * 32)
    tokens = [576, *(576 - gone for gone in accumulate(deleted))]
    below = min(int(depth), 31)
    return (tokens[below] + (tokens[below + 1] - tokens[below]) * (depth - below)) / 576


def _between(curves: Sequence[list[float]], measure: Callable[[list[float]], float], wanted: float) -> list[float]:
    """The mixture of two neighbouring curves, of descending measure, whose measure is the one wanted."""
    for low, high in pairwise(curves):
        before, after = measure(low), measure(high)
        if before <= wanted:
            return low
        if after <= wanted:
            share = (before - wanted) / (before - after)
            return [(1 - share) * more + share * less for more, less in zip(low, high, strict=True)]
    return curves[-1]
