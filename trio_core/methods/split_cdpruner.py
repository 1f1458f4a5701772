"""Split CDPruner: CDPruner as OpenVINO GenAI runs it."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from trio_core.methods.crops import Crop, TowerMethod, all_tokens, crop_by_crop, crops_of
from trio_core.methods.method import Reference, within
from trio_core.methods.view import Sample, Selection, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine, dpp_map, unit_rows
from trio_core.tensors import FeaturesND, KeptK, ScoresN, widened

EPSILON = 1e-6
"""The engine's `numerical_threshold`."""


def split_cdpruner(features: FeaturesND, scores: ScoresN, budget: int, weight: float, split: bool) -> KeptK:
    """The tokens of one picture that are relevant and unlike each other: [K] indices, ascending.

    With `split`, ⌊K/2⌋ come from the first ⌊N/2⌋ tokens and the others from the rest, each half on its own. Each is the
    greedy MAP of a determinantal point process with the kernel (1 − w + w · r_i · r_j) · cosine_ij. The relevances r
    are the scores brought to 0 … 1 within the half.

    features: [N, D], as they enter the decoder.
    scores: [N], cosines with the question.
    budget: K, 1 … N.
    weight: w, 0 … 1.

    Raises OptionError as `dpp_map` does.
    Source: openvinotoolkit/openvino.genai at da1db86, src/cpp/src/visual_language/cdpruner. Deliberate difference: if
    the rank of the kernel is too low, the lowest indices complete the selection. The engine goes on by rounding errors.
    """
    kept, start = [], 0
    for count, share in _halves(len(scores), budget, split):
        part = slice(start, start + count)
        if share:
            kept.append(start + dpp_map(_kernel(features[part], scores[part], weight), share))
        start += count
    return torch.cat(kept)


def _halves(count: int, budget: int, split: bool) -> list[tuple[int, int]]:
    """The tokens and the budget of each half. Both halves together if they are not split."""
    if not split or count == 1:
        return [(count, budget)]
    return [(count // 2, budget // 2), (count - count // 2, budget - budget // 2)]


def _kernel(features: FeaturesND, scores: ScoresN, weight: float) -> torch.Tensor:
    """[N, N], the kernel of some tokens."""
    wide = widened(scores)
    low, high = wide.aminmax()
    relevances = (wide - low) / (high - low + EPSILON)
    return (1 - weight + weight * relevances[:, None] * relevances) * cosine(features)


@dataclass(frozen=True, kw_only=True)
class SplitCDPruner(TowerMethod):
    """Keep the tokens that are relevant to the prompt and unlike each other, in each half of a picture.

    relevance_weight: how much relevance counts against diversity, w.
    split: whether the halves are kept apart. The engine's default; CDPRUNER_SPLIT_THRESHOLD=0 turns it off there.

    Each picture keeps an equal share.
    """

    relevance_weight: float = within("[0, 1]", 0.5)
    split: bool = True

    name: ClassVar[str] = "split-cdpruner"
    reference: ClassVar[Reference] = Reference(
        title="Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs",
        arxiv="2506.10967",
        repository="openvinotoolkit/openvino.genai",
        commit="da1db864d2bc1a265e9a036f5b57ef13f0e86c2c",
        note="The rule of the engine, which differs from the paper's. Half of the budget comes from each half of the "
        "tokens; the paper selects from all. Relevance is scaled in each half; the paper scales it over the picture. "
        "The kernel mixes the paper's with the bare cosine, half and half. Relevance is the cosine with the mean "
        "embedding of the prompt outside of the picture; the paper asks CLIP's text tower. The two tokens beside a "
        "picture are left out, which are the marks around it. In the engine the text after a picture counts on after "
        "the largest kept position id.",
    )

    def select(self, view: View) -> Selection:
        """Select picture by picture. The scores are the cosines with the prompt."""
        kept, scores = zip(*(self._sample(sample) for sample in view.samples), strict=True)
        return Selection(kept, scores)

    def _sample(self, sample: Sample) -> tuple[KeptK, ScoresN]:
        """[K] the tokens kept of one sample, and [N] the cosine of each with the prompt."""
        features = sample.features
        if sample.keeps_all:
            return all_tokens(sample), torch.ones(len(features), device=features.device)
        scores = (unit_rows(features) @ unit_rows(_prompt(sample)).T)[:, 0]

        def rule(crop: Crop) -> KeptK:
            parts = features[crop.tokens], scores[crop.tokens]
            return split_cdpruner(*parts, crop.budget, self.relevance_weight, self.split)

        return crop_by_crop(crops_of(sample), rule), scores

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the relevance, of the similarities within each half, and of the Cholesky rows of its picks."""
        halves = [
            half
            for patches, share in shape.crop_shares(sizes.visual, sizes.budget)
            for half in _halves(patches, share, self.split)
            if half[1]
        ]
        diversity = sum(count * (count * shape.hidden + share * (share - 1) // 2) for count, share in halves)
        return diversity + sizes.visual * shape.hidden


def _prompt(sample: Sample) -> FeaturesND:
    """[1, D], the mean embedding of a sample's prompt outside of the picture and the two tokens beside it."""
    view, last = sample.view, sample.view.valid.shape[1] - 1
    text = view.valid[sample.index].clone()
    for step in (-1, 0, 1):
        text.index_fill_(0, (sample.rows + step).clamp(0, last), False)
    words = widened(view.hidden[sample.index]) * text[:, None]
    return words.sum(dim=0, keepdim=True) / text.sum().clamp_min(1)
