"""SparseVLM: visual token sparsification for efficient vision-language model inference (arXiv 2410.04417)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View, last_rows
from trio_core.rules.attention import LayerCall, attend, rotate
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, Schedule, default_layers
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK, MergedKD, ScoresN

HEADS = 14
"""Heads that SparseVLM+ listens to, whatever the model has."""

PUBLISHED: dict[str, Schedule] = {
    name: Schedule((3, 7, 16), budgets, 576, 32)
    for name, budgets in {
        # What each stage leaves of LLaVA-1.5's picture: v1 keeps 300, 200, 110 and so on, and adds its merged tokens.
        "v1-192": (309, 204, 113),
        "v1-128": (312, 117, 39),
        "v1-96": (249, 55, 27),
        "v1-64": (82, 32, 18),
        "v2-192": (300, 200, 118),
        "v2-128": (238, 108, 60),
        "v2-96": (246, 54, 28),
        "v2-64": (66, 34, 20),
    }.items()
}
"""The released lists by version and name. A name counts the pruning layers as pruned already; the layers run on more:
206.5, 145.4, 114.1 and 82.25 tokens for v1, 206.75, 144.1, 113.9 and 81.8 for v2."""


@dataclass(frozen=True, kw_only=True)
class SparseVLM(Method):
    """Keep what the telling words of the question attend to in the layer that has just run, and recycle of the rest.

    recycle: fold the better dropped tokens into a few merged ones. A budget counts both, those kept and those merged.
    The kept ones come first, the merged ones behind them, as released, laid over the places of the kept tokens and of
    the clusters' centres.
    version: `v2` is SparseVLM+: it recycles nothing, divides attention by what the rotary embedding alone would give,
    and listens to the 14 heads that the telling words use most.
    """

    recycle: bool = True
    version: Literal["v1", "v2"] = "v1"

    name: ClassVar[str] = "sparsevlm"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.EMBEDDINGS})
    proportion: ClassVar[tuple[int, ...]] = (82, 32, 18)
    reference: ClassVar[Reference] = Reference(
        title="SparseVLM: Visual Token Sparsification for Efficient Vision-Language Model Inference",
        arxiv="2410.04417",
        repository="Gumpest/SparseVLMs",
        commit="26a5f48813c46cd1c7364160354e7fdd3febaa67",
        note="Numbers of tokens are a schedule's, as in the released code, where the paper adapts them to a rank. Ties "
        "of density go to the lower index, where it adds noise: its merged tokens differ from run to run. Without a "
        "telling word all words count, where it has no scores. v1 renumbers positions: positions='compact' does so. "
        "v2's divisor turns negative at some distances from 1707 on, for heads of 128, and is left so.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version not in ("v1", "v2"):
            raise OptionError(f"version {self.version!r}: choose v1 or v2")

    @property
    def merges(self) -> bool:
        """Whether some of the budget stands for merged tokens."""
        return self.recycle and self.version == "v1"

    def default_layers(self, num_layers: int) -> Layers:
        """After 3, 7 and 16 layers of 32, and in proportion elsewhere."""
        return default_layers(num_layers, (3, 7, 16))

    def select(self, view: View) -> Selection:
        """Rate by the rows of all words behind the picture, of which the telling ones count; then keep and recycle."""
        call, most = view.probed("current"), max(picture.text_after for picture in view.pictures)
        rows_BT = last_rows(view.valid, most, padded=view.padded)
        weights_BHTS = attend(call, rows_BT, view.valid).by_query_head()
        scores, kept, features = [], [], []
        for b, picture in enumerate(view.pictures):
            words = slice(most - picture.text_after, None)  # a sample with fewer has them at the end
            attention_HTN = weights_BHTS[b, :, words].index_select(2, picture.rows)
            telling_T = view.embeddings[b].once(raters)
            if self.version == "v2":
                scores.append(
                    rating(attention_HTN / gravity(call, b, rows_BT[b, words], picture.rows), telling_T, HEADS)
                )
            else:
                scores.append(rating(attention_HTN, telling_T))
            if self.merges:
                chosen, left = recycled(scores[b], view.features(b), picture.budget)
                kept.append(chosen)
                features.append(left)
            else:
                kept.append(top_k(scores[b], picture.budget))
        return Selection(tuple(kept), tuple(scores), tuple(features) if self.merges else None)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the words' rows, of the words told apart, once a prefill, of v2's divisor and of v1's means.

        Distances between tokens are taken by differences, which a counter of products does not see.
        """
        words, width = sizes.text_after, shape.query_width
        rows = sizes.tokens * shape.hidden * shape.kv_width + words * (shape.hidden + sizes.tokens) * width
        if sizes.visual == sizes.picture:  # the first stage that drops
            rows += sizes.visual * words * shape.hidden
        if self.version == "v2":
            rows += words * sizes.visual * (width // shape.heads)
        if not self.merges:
            return rows
        kept, merged = shares(sizes.visual, sizes.budget)
        return rows + merged * pool_of(sizes.visual - kept) * shape.hidden


@torch.no_grad()
def raters(visual: Tensor, text: Tensor) -> Tensor:
    """[T], True at the words that tell: those that the picture's embeddings are more like than the average word.

    P = softmax over the words of V · Qᵀ, neither scaled nor normed, averaged over the visual tokens; raters are above
    the mean of P, which is 1 / T. Where none is, all are. Gumpest/SparseVLMs at 26a5f48.

    visual: [V0, D] and text: [T, D], as they enter the decoder. Computes in float32, or float64 for such inputs.
    """
    wide = torch.promote_types(visual.dtype, torch.float32)
    likeness = (visual.to(wide) @ text.to(wide).T).softmax(dim=1).mean(dim=0)
    above = likeness > likeness.mean()
    return above | ~above.any()


@torch.no_grad()
def rating(attention: Tensor, raters: Tensor, heads: int | None = None) -> ScoresN:
    """[N] what the raters attend to, averaged over them and over heads. Gumpest/SparseVLMs at 26a5f48.

    attention: [H, T, N], the words' rows at the visual tokens, of which the softmax has seen more. raters: [T], True at
    those that count. heads: only so many, with the most of the raters' attention; ties go to the lower head.
    """
    seen_HN = attention.masked_fill(~raters[:, None], 0).sum(dim=1)
    if heads is not None and heads < len(seen_HN):
        seen_HN = seen_HN[seen_HN.sum(dim=1).argsort(descending=True, stable=True)[:heads]]
    return seen_HN.mean(dim=0) / raters.sum()


def gravity(call: LayerCall, sample: int, rows: Tensor, columns: Tensor) -> Tensor:
    """[T, N] what the rotary embedding gives queries `rows` and keys `columns` of nothing but ones, over √E."""
    cos, sin = (
        part[sample if len(part) > 1 else 0].to(torch.promote_types(part.dtype, torch.float32)) for part in call.rotary
    )
    turned = rotate(torch.ones_like(cos)[None, :, None], cos[None], sin[None])[0, :, 0]
    return turned[rows] @ turned[columns].T / cos.shape[-1] ** 0.5


def pool_of(dropped: int) -> int:
    """How many of the dropped tokens are recycled: ⌊0.3 · D⌋ + 1."""
    return 3 * dropped // 10 + 1


def shares(count: int, total: int) -> tuple[int, int]:
    """Of `total` places for `count` tokens, how many keep theirs, and how many are merged from the rest.

    With k kept, D = count − k are dropped, ⌊0.3 · D⌋ + 1 of them pooled, and the pool makes ⌊pool / 10⌋ + 1 merged
    tokens. One more kept adds one place or none, so that the largest k whose sum does not exceed the total meets it:
    nothing is left over. Only a total too small for one kept and its merged ones keeps one, and merges into what is
    left, fewer than the rule asks for. Raises OptionError for a total out of range.
    """
    if not 1 <= total <= count:
        raise OptionError(f"budget {total}: can leave 1 … {count} of {count} tokens")
    kept = total
    while kept > 1 and kept + _clusters(count - kept) > total:
        kept -= 1
    return kept, total - kept


def _clusters(dropped: int) -> int:
    return pool_of(dropped) // 10 + 1 if dropped else 0


@torch.no_grad()
def recycled(scores: ScoresN, features: FeaturesND, total: int) -> tuple[KeptK, MergedKD]:
    """SparseVLM's tokens at one stage: the kept, and behind them the better of the dropped, merged.

    Gumpest/SparseVLMs at 26a5f48, with `shares` for its lists. The best of the dropped are pooled and clustered by
    `cluster`; ties of scores go to the lower index.

    scores: [N]; features: [N, D], what leaves the layer; total: K in 1 … N. Returns the places that stay, [K] ascending
    indices of kept tokens and of the clusters' centres; and the [K, D] features that stand there from now on: the kept
    ones in their order, then the merged ones. The host waits for the inputs' checks.
    Raises OptionError for a total out of range and for scores or features that are not finite.
    """
    kept, merged = shares(len(scores), total)
    best = top_k(scores, kept)
    if not merged:
        return best, features[best]
    order = scores.argsort(descending=True, stable=True)
    pool = order[kept : kept + pool_of(len(scores) - kept)].sort().values
    centres, means = cluster(features[pool], merged)
    return torch.cat([best, pool[centres]]).sort().values, torch.cat([features[best], means])


@torch.no_grad()
def cluster(features: FeaturesND, count: int) -> tuple[KeptK, MergedKD]:
    """Density-peak clustering by nearest neighbours, and the mean of each cluster. Gumpest/SparseVLMs at 26a5f48.

    Distances are Euclidean, over √D. A token's density is exp(−mean of the squared distances to its `count` nearest,
    itself among them); its score the density times the distance to the nearest denser token, and for the densest the
    greatest distance of all. The highest scores are centres; the others go to the nearest centre. Of two equal
    densities, the lower index counts as denser (there, random noise decides); equal scores go to the lower index, equal
    distances to the centre of the higher score.

    features: [m, D]; count: C in 1 … m. Returns the centres, [C] in the order of their scores, and the means, [C, D] in
    the features' dtype, taken in float32 (float64 for such). By differences, so that ties are ties: no [m, m, D] is
    held, nor is there a product. Raises OptionError for a count out of range and for features that are not finite.
    """
    if not 1 <= count <= len(features):
        raise OptionError(f"clusters {count}: can merge {len(features)} tokens into 1 … {len(features)}")
    if not features.isfinite().all():
        raise OptionError("features hold NaN or infinity: the hidden states that entered the stage are broken")
    wide = features.to(torch.promote_types(features.dtype, torch.float32))
    distance = torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist") / wide.shape[1] ** 0.5
    density = (-distance.topk(count, dim=1, largest=False).values.square().mean(dim=1)).exp()
    index = torch.arange(len(wide), device=wide.device)
    denser = (density > density[:, None]) | ((density == density[:, None]) & (index < index[:, None]))
    apart = distance.where(denser, distance.max()).amin(dim=1)
    centres = (apart * density).argsort(descending=True, stable=True)[:count]
    nearest = distance[:, centres].argmin(dim=1).index_copy(0, centres, index[:count])
    # A product with zeros and ones instead of scattered sums, whose order would change from run to run on a GPU.
    assigned = (nearest == index[:count, None]).to(wide.dtype)
    return centres, (assigned @ wide / assigned.sum(dim=1, keepdim=True)).to(features.dtype)
