"""FitPrune: fit and prune, fast and training-free visual token pruning (arXiv 2409.10197)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

from trio_core.methods.method import Reference, ScoreMethod
from trio_core.methods.view import Signal, View, last_rows
from trio_core.rules.attention import attend_each
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, Proportion, check_depth, retention_of
from trio_core.tensors import ScoresN, wide_type

BLOCK = 128
"""How many rows of attention are in memory at a time."""

WHOLE = 2**20
"""The shares of a profile are rounded to this many parts, and each is at least one part."""

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
"""How many of 576 tokens each of LLaVA-1.5's 32 layers deletes, by the percentage of the work that is saved.

From modeling_llama.py of ywh187/FitPrune at d28e418. The layers run on 541, 493, 424, 362, 302, 274, 245, 188, 131 and
73 tokens on average."""


@dataclass(frozen=True, kw_only=True)
class FitPrune(ScoreMethod):
    """After every layer, drop the visual tokens that text and picture attend to least.

    The released tables say how many tokens go where. They were fitted offline to keep the model's attention. We read a
    table at the layer's share of the depth, and mix the two tables whose averages lie on either side of the retention.
    """

    name: ClassVar[str] = "fitprune"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="Fit and Prune: Fast and Training-free Visual Token Pruning for Multi-modal Large Language Models",
        arxiv="2409.10197",
        repository="ywh187/FitPrune",
        commit="d28e418c920912b20dc888325651ecc6e214e6a1",
        licence="none at its root; its LLaVA folder is Apache-2.0",
        note="The code drops tokens inside a layer, before the output projection. Here they leave after the layer, so "
        "its projection and FFN run on them too. The tables were fitted on LLaVA-1.5. For other depths and retentions, "
        "budgets are interpolated between the tables. Below the lowest table they follow its trend. You cannot fit "
        "tables to another model or to your own pictures, as the code can.",
    )

    def default_layers(self, num_layers: int) -> Layers:
        """After every layer but the last."""
        check_depth(num_layers)
        return tuple(range(1, num_layers))

    def profile(self, layers: Layers, num_layers: int) -> Proportion:
        """The mixture of two tables at which the retention is met."""
        wanted = self.retention
        assert wanted is not None
        depths = [32 * layer / num_layers for layer in layers]
        curves = [[_left(table, depth) for depth in depths] for table in ((0,) * 32, *DELETED.values())]
        for more, fewer in pairwise([*curves, [0.0] * len(layers)]):
            high, low = (retention_of(curve, layers, num_layers, self.budget_rule) for curve in (more, fewer))
            if low <= wanted <= high:
                part = (high - wanted) / (high - low) if high > low else 0.0
                mixed = [(1 - part) * a + part * b for a, b in zip(more, fewer, strict=True)]
                return [max(1, round(share * WHOLE)) for share in mixed]
        return [1] * len(layers)  # too low a retention, which the schedule refuses

    def score(self, view: View) -> list[ScoresN]:
        """For each sample [N], text attention times picture attention. Rows are computed block by block."""
        most = max(picture.text_after for picture in view.pictures)
        words_BT = last_rows(view.valid, most, padded=view.padded)
        blocks = (*words_BT.split(BLOCK, dim=1), *view.visual.split(BLOCK, dim=1))
        start, wide = 0, wide_type(view.hidden)
        sums = [view.hidden.new_zeros(2, len(sample.rows), dtype=wide) for sample in view.samples]
        for attended in attend_each(view.probed("current"), blocks, view.valid):
            weights_BHPS = attended.by_query_head()
            for sample in view.samples:
                # Each sample has `most` rows of words, its own at their end, and then the rows of its picture. So its
                # own rows lie side by side; low and high are their limits within this block.
                low, high = most - sample.picture.text_after - start, most + len(sample.rows) - start
                rows_PS = weights_BHPS[sample.index, :, max(low, 0) : max(high, 0)].amax(dim=0)
                sums[sample.index][int(start >= most)] += rows_PS.index_select(1, sample.rows).sum(dim=0)
            start += attended.rows
        return [from_text * (from_picture / len(from_picture)) for from_text, from_picture in sums]

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the rows of all visual tokens and of the text after them."""
        return shape.attention_row_macs(sizes.tokens, sizes.visual + sizes.text_after)


def _left(deleted: Sequence[int], depth: float) -> float:
    """The share of the tokens that a table leaves after `depth` of 32 layers, interpolated between layers."""
    tokens = [576, *(576 - gone for gone in accumulate(deleted))]
    below = min(int(depth), 31)
    return (tokens[below] + (tokens[below + 1] - tokens[below]) * (depth - below)) / 576
