"""SparseVLM: visual token sparsification for efficient vision-language model inference (arXiv 2410.04417)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View, last_rows
from trio_core.rules.attention import LayerCall, attend, rotate
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means, density_peaks, nearest_centre
from trio_core.rules.schedule import Layers, Proportion, Schedule, retention_of
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK, MergedKD, ScoresN, widened

HEADS = 14
"""How many heads version v2 reads, in a model of any size."""

PUBLISHED: dict[str, tuple[Schedule, ...]] = {
    # Tokens after each stage, for averages that the code calls 192, 128, 96 and 64. Of v1's, the code lists the kept
    # tokens alone (300, 200, 110 and so on); its merged tokens come on top.
    version: tuple(Schedule((3, 7, 16), budgets, 576, 32) for budgets in ladders)
    for version, ladders in {
        "v1": ((309, 204, 113), (312, 117, 39), (249, 55, 27), (82, 32, 18)),
        "v2": ((300, 200, 118), (238, 108, 60), (246, 54, 28), (66, 34, 20)),
    }.items()
}
"""The released budgets for LLaVA-1.5, by version. The code's averages count a pruning layer as pruned already; the
layers really run on 206.5, 145.4, 114.1 and 82.25 tokens with v1, on 206.75, 144.1, 113.9 and 81.8 with v2."""


@dataclass(frozen=True, kw_only=True)
class SparseVLM(Method):
    """Keep the tokens that the question's most visual words attend to, and merge the best of the rest.

    Attention is that of the layer that has just run. A budget counts kept and merged tokens. Kept tokens stay at their
    own places, and each merged token stands at the place of its cluster's centre.

    recycle: whether v1 merges some of the dropped tokens.
    version: `v2` is SparseVLM+. It merges nothing, divides attention by what the rotary embedding gives vectors of
        ones, and reads only the 14 heads that the chosen words use most.
    """

    recycle: bool = True
    version: Literal["v1", "v2"] = "v1"

    name: ClassVar[str] = "sparsevlm"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.EMBEDDINGS})
    paper_layers: ClassVar[tuple[int, ...]] = (3, 7, 16)
    reference: ClassVar[Reference] = Reference(
        title="SparseVLM: Visual Token Sparsification for Efficient Vision-Language Model Inference",
        arxiv="2410.04417",
        repository="Gumpest/SparseVLMs",
        commit="26a5f48813c46cd1c7364160354e7fdd3febaa67",
        note="Budgets take the proportion of the released list whose average is nearest to the retention, scaled to "
        "the retention. The paper adapts them to a rank instead. The code of v1 puts merged tokens behind the kept "
        "ones. Here each merged token stands at the centre of its cluster. If no word is more visual than the average, "
        "all words count. The code has no scores then. As in the code, v2's divisor is negative at some distances, "
        "from 1707 tokens on and with heads of width 128.",
    )

    @property
    def merges(self) -> bool:
        """Whether some of the budget is for merged tokens."""
        return self.recycle and self.version == "v1"

    def profile(self, layers: Layers, num_layers: int) -> Proportion:  # noqa: ARG002
        """The budgets of the released list, of the same version, whose retention is nearest to the wanted one."""
        wanted = self.retention
        assert wanted is not None

        def distance(listed: Schedule) -> float:
            kept = [budget / listed.visual_tokens for budget in listed.budgets]
            return abs(retention_of(kept, listed.layers, listed.num_layers, self.budget_rule) - wanted)

        return min(PUBLISHED[self.version], key=distance).budgets

    def select(self, view: View) -> Selection:
        """Score by the attention of the words that rate, then keep the best tokens and merge some of the others."""
        call, most = view.probed("current"), max(picture.text_after for picture in view.pictures)
        rows_BT = last_rows(view.valid, most, padded=view.padded)
        attended = attend(call, rows_BT, view.valid)
        weights_BHTS, width = attended.by_query_head(), attended.heads.shape[-1]
        scores, kept, features = [], [], []
        for sample in view.samples:
            # All samples have `most` rows. The rows of a sample with fewer words are the last ones.
            words = slice(most - sample.picture.text_after, None)
            attention_HTN = weights_BHTS[sample.index, :, words].index_select(2, sample.rows)
            heads = None
            if self.version == "v2":
                heads = HEADS
                rows_T = rows_BT[sample.index, words]
                attention_HTN = attention_HTN / rotary_bias(call, sample.index, rows_T, sample.rows, width)
            scores.append(rating(attention_HTN, view.embeddings[sample.index].once(raters), heads))
            if self.merges:
                places, left = recycled(scores[-1], sample.features, sample.budget)
                kept.append(places)
                features.append(left)
            else:
                kept.append(top_k(scores[-1], sample.budget))
        return Selection(tuple(kept), tuple(scores), tuple(features) if self.merges else None)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the words' rows, of finding the raters once a prefill, of v2's divisor and of v1's means.

        Distances between tokens cost none, because they are sums of squared differences.
        """
        words = sizes.text_after
        rows = shape.attention_row_macs(sizes.tokens, words)
        if sizes.visual == sizes.picture:  # the first stage that drops
            rows += sizes.visual * words * shape.hidden
        if self.version == "v2":
            rows += words * sizes.visual * (shape.query_width // shape.heads)
        if not self.merges:
            return rows
        kept, merged = kept_and_merged(sizes.visual, sizes.budget)
        return rows + merged * pool_size(sizes.visual - kept) * shape.hidden


def raters(visual: Tensor, text: Tensor) -> Tensor:
    """[T], True at the words that rate: those more like the picture than the average word. All words if none is.

    A word's likeness is softmax over the words of visual · textᵀ, averaged over the visual tokens. Nothing is scaled or
    normalised. Computed in float32, or float64 for float64 inputs.

    visual: [V0, D], the picture as it enters the decoder.
    text: [T, D], the text after the picture as it enters the decoder.

    Source: Gumpest/SparseVLMs at 26a5f48.
    """
    likeness = (widened(visual) @ widened(text).T).softmax(dim=1).mean(dim=0)
    above = likeness > likeness.mean()
    return above | ~above.any()


def rating(attention: Tensor, raters: Tensor, heads: int | None = None) -> ScoresN:
    """[N], the attention that each visual token receives from the raters, averaged over raters and heads.

    attention: [H, T, N], the words' attention weights at the visual tokens. The softmax ran over all tokens.
    raters: [T], True at the words that rate.
    heads: average only this many heads, those with the most attention from the raters. Ties go to the lower head.

    Source: Gumpest/SparseVLMs at 26a5f48.
    """
    received_HN = attention.masked_fill(~raters[:, None], 0).sum(dim=1)
    if heads is not None and heads < len(received_HN):
        received_HN = received_HN[received_HN.sum(dim=1).argsort(descending=True, stable=True)[:heads]]
    return received_HN.mean(dim=0) / raters.sum()


def rotary_bias(call: LayerCall, sample: int, rows: Tensor, columns: Tensor, width: int) -> Tensor:
    """[T, N], the attention scores that vectors of ones would get from the rotary embedding, over √E.

    call: the layer whose rotary embedding is used.
    sample: index in the batch.
    rows: [T], places of the queries.
    columns: [N], places of the keys.
    width: E, of a head.
    """
    cos, sin = (widened(part[sample if len(part) > 1 else 0]) for part in call.rotary)
    turned = rotate(cos.new_ones(1, len(cos), 1, width), cos[None], sin[None])[0, :, 0]
    return turned[rows] @ turned[columns].T / width**0.5


def pool_size(dropped: int) -> int:
    """How many of the dropped tokens are merged: ⌊0.3 · dropped⌋ + 1."""
    return 3 * dropped // 10 + 1


def kept_and_merged(count: int, total: int) -> tuple[int, int]:
    """How many tokens are kept and how many merged tokens are added, so that both make `total`.

    Of D dropped tokens ⌊0.3 · D⌋ + 1 are pooled, and the pool makes ⌊pool / 10⌋ + 1 merged tokens. One more kept token
    needs one place more or none, so the largest number of kept tokens that fits meets the total. A total too small for
    one kept token and its merged ones keeps one, and merges into as many as are left.

    count: number of visual tokens.
    total: number of tokens to leave, 1 … count.

    Raises OptionError for a total out of range.
    """
    check_budget(total, count)
    kept = total
    while kept > 1 and kept + _clusters(count - kept) > total:
        kept -= 1
    return kept, total - kept


def _clusters(dropped: int) -> int:
    """How many merged tokens the dropped ones make."""
    return pool_size(dropped) // 10 + 1 if dropped else 0


def recycled(scores: ScoresN, features: FeaturesND, total: int) -> tuple[KeptK, MergedKD]:
    """The places that stay, [K] ascending, and the features at these places, [K, D].

    The tokens with the highest scores stay as they are. The best of the others are pooled and clustered; the centre of
    each cluster becomes the cluster's mean.

    scores: [N]. Ties go to the lower index.
    features: [N, D], the input of the next layer.
    total: K in 1 … N.

    The host waits for the device, to check the inputs. Raises OptionError for a total out of range, and for scores or
    features that are not finite. Source: Gumpest/SparseVLMs at 26a5f48; the released lists give the same numbers of
    kept and merged tokens as `kept_and_merged`.
    """
    kept, merged = kept_and_merged(len(scores), total)
    best = top_k(scores, kept)
    if not merged:
        return best, features[best]
    order = scores.argsort(descending=True, stable=True)
    pool = order[kept : kept + pool_size(len(scores) - kept)].sort().values
    centres, means = cluster(features[pool], merged)
    places, by_place = torch.cat([best, pool[centres]]).sort()
    return places, torch.cat([features[best], means])[by_place]


def cluster(features: FeaturesND, count: int) -> tuple[KeptK, MergedKD]:
    """The centres of density-peak clusters, [C] in the order of their scores, and the mean of each cluster, [C, D].

    Distances are Euclidean, over √D. The centres are the first C of `density_peaks` with C neighbours, and every other
    token joins the nearest centre; ties go to the centre with the higher score. (The code breaks ties of density by
    noise.)

    Means are computed in float32, or float64 for float64 features, and returned in the features' dtype.

    features: [m, D].
    count: C in 1 … m.

    Raises OptionError for a count out of range and for features that are not finite. Source: Gumpest/SparseVLMs at
    26a5f48.
    """
    check_budget(count, len(features))
    check_finite("features", features)
    wide = widened(features)
    # By differences and not by a matrix product, so that equal distances are equal to the last bit.
    distance = torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist") / wide.shape[1] ** 0.5
    centres = density_peaks(distance.square(), count)[:count]
    return centres, cluster_means(features, nearest_centre(distance, centres), count)
