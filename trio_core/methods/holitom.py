"""HoliTom: holistic token merging for video large language models (arXiv 2505.21334)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Media, Method, Reference, Stage, within
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.rules.checks import check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import Segment, cluster_means, dpc_knn, over_time, with_static_places
from trio_core.rules.schedule import proportional
from trio_core.rules.selection import top_k, unit_rows
from trio_core.tensors import FeaturesND, KeptK, MergedKD, ScoresN, widened

NEIGHBOURS = 7
"""How many nearest tokens make a token's density, the token itself included. Never more than the centres."""


def best_segments(likeness: Tensor, threshold: float) -> list[int]:
    """How many frames each segment has, if averaging its static places over time is to take away the most tokens.

    A place is static in a segment if each of its cosines there is above the threshold. S static places of L frames take
    away S · (L − 1) tokens. Of segments that take away equally many the shortest are taken.

    likeness: [F − 1, P], the cosine of each token and the token at its place in the next frame.

    The host waits for the number of static places of each pair of frames.
    """
    steady = likeness > threshold
    static = [steady[first:].cumprod(dim=0).sum(dim=1).tolist() for first in range(len(steady))]
    gone, last_length = [0], [1]
    for end in range(1, len(steady) + 1):
        options = [(gone[end - 1], 1)]
        for first in range(end - 1, -1, -1):
            before = gone[first - 1] if first else 0
            options.append((before + (end - first) * static[first][end - first - 1], end - first + 1))
        most, length = max(options, key=lambda option: (option[0], -option[1]))
        gone.append(most)
        last_length.append(length)
    lengths, end = [], len(steady)
    while end >= 0:
        lengths.append(last_length[end])
        end -= last_length[end]
    return lengths[::-1]


def merged_by_density(states: FeaturesND, count: int, centre_weight: float) -> tuple[KeptK, Tensor, MergedKD]:
    """Cluster tokens by density peaks: the centres, [K] ascending, the labels, [N], and the merged tokens, [K, D].

    A merged token is the weighted mean of its centre and the mean of the tokens that join it.

    states: [N, D].
    count: K, 1 … N.

    Raises OptionError for NaN or infinity.
    """
    centres, labels = dpc_knn(states, count, min(NEIGHBOURS, count))
    others = labels.index_fill(0, centres, -1)
    alone = (others == torch.arange(count, device=labels.device)[:, None]).sum(dim=1, keepdim=True) == 0
    own = alone.to(states.dtype).clamp_min(centre_weight)
    return centres, labels, own * states[centres] + (1 - own) * cluster_means(states, others, count)


def folded(features: FeaturesND, kept: KeptK) -> tuple[MergedKD, Tensor]:
    """The kept tokens, [K, D], after the others have joined them; and the label of each token, [N], 0 … K − 1.

    A dropped token joins the kept token of the largest cosine. They join one after the other, and each time the kept
    token becomes the mean of itself and the one that joins. So the last one has a weight of one half.

    features: [N, D].
    kept: [K] indices.
    """
    unit, wide = unit_rows(features), widened(features)
    number = torch.arange(len(kept), device=kept.device)
    labels = (unit @ unit[kept].T).argmax(dim=1)
    joins = labels.index_fill(0, kept, -1) == number[:, None]
    from_here_on = joins.flip(1).cumsum(dim=1).flip(1)  # how many tokens join from this one on
    weights = joins * 0.5 ** from_here_on.to(wide.dtype)
    own = 0.5 ** from_here_on[:, :1].to(wide.dtype)
    return (own * wide[kept] + weights @ wide).to(features.dtype), labels.index_copy(0, kept, number)


@dataclass(frozen=True, kw_only=True)
class HoliTom(Method):
    """Average what does not change over time, keep the most attended of the rest, and later merge again.

    Of the segments of a video, averaging over time takes away the most tokens. Averaged tokens merge by density peaks.
    In the decoder each dropped token joins the most similar kept one.

    similarity: a place does not change if the cosine of its tokens in adjacent frames is above this.
    centre_weight: weight of the centre in a merged token.
    """

    similarity: float = within("[-1, 1]", 0.8)
    centre_weight: float = within("[0, 1]", 0.6)

    name: ClassVar[str] = "holitom"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER, Signal.LAYERS})
    media: ClassVar[Media] = "videos"
    proportion: ClassVar[tuple[int, ...]] = (2, 1)
    """As released: half of the tokens in the decoder."""
    paper_layers: ClassVar[tuple[int, ...]] = (21,)
    """As released: after layer 18 of 28."""
    reference: ClassVar[Reference] = Reference(
        title="HoliTom: Holistic Token Merging for Fast Video Large Language Models",
        arxiv="2505.21334",
        repository="cokeshao/HoliTom",
        commit="e9b2972f6895c9e7d7fe74eb8c3a2ecaab8056e0",
        note="The rule is that of the released code with its defaults, which keep tokens by attention alone (D = 0). "
        "The released code is for LLaVA-OneVision and LLaVA-Video. Each block of tokens has its share of the budget, "
        "in proportion to its tokens; the released code rounds each by itself. If averaging over time would leave "
        "fewer tokens than the budget, only the most similar places are averaged. The released code keeps fewer then. "
        "At a retention of 0.1 it lowers the similarity to 0.65, and you can do so by the option. Tokens in no frame "
        "are one block more, ranked by attention. A merged token stands at the place of its centre, and the centre in "
        "the first frame of its segment. The released code puts the merged tokens of a segment first. Tokens join in "
        "the decoder in their order.",
    )

    def select(self, view: View) -> Selection:
        """Merge over time and space before the decoder. Later, by the attention of the layer that has just run."""
        if view.layer == 0:
            scores = tuple(view.encoder.attention_of(sample.index) for sample in view.samples)
            stages = [self._before(sample, scores[sample.index]) for sample in view.samples]
        else:
            scores = view.attention_of_last("current")
            stages = [_inside(sample, scores[sample.index]) for sample in view.samples]
        kept, features, into = zip(*stages, strict=True)
        return Selection(kept, scores, features, partial(tuple, into))

    def _before(self, sample: Sample, attention: ScoresN) -> tuple[KeptK, MergedKD, Tensor]:
        """The tokens that stay, [K] ascending; what stands there, [K, D]; and where each token went, [N], or −1."""
        features = sample.features
        check_finite("hidden states", features)
        segments = self._segments(sample)
        states, part_of = over_time(features, segments)
        into, kept = torch.full_like(part_of, -1), []
        still = [(segment.blocks[0], True) for segment in segments]
        rest = [(block, False) for segment in segments for block in segment.blocks[1:]]
        blocks = [((sample.frame < 0).nonzero()[:, 0], False), *still, *rest]
        parts = proportional(sample.budget, [len(block) for block, _ in blocks])
        for (block, is_still), count in zip(blocks, parts, strict=True):
            if count and is_still:
                centres, labels, merged = merged_by_density(states[block], count, self.centre_weight)
                kept.append(block[centres])
                states[kept[-1]] = merged
                into[block] = kept[-1][labels]
            elif count:
                kept.append(block[top_k(attention[block], count)])
                into[kept[-1]] = kept[-1]
        indices = torch.cat(kept).sort().values
        return indices, states[indices].to(features.dtype), into[part_of]

    def _segments(self, sample: Sample) -> list[Segment]:
        """The segments of all videos of a sample, in order."""
        numbers, similarity = [], []
        for video in sample.videos:
            frames = widened(sample.features[video.number])
            likeness = F.cosine_similarity(frames[:-1], frames[1:], dim=-1)
            lengths = best_segments(likeness, self.similarity)
            numbers += video.number.split(lengths)
            first = 0
            for length in lengths:
                inside = likeness[first : first + length - 1]
                similarity.append(inside.amin(dim=0) if length > 1 else frames.new_full(frames.shape[1:2], -1))
                first += length
        return with_static_places(numbers, similarity, self.similarity, len(sample.features) - sample.budget)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the tower's attention before the decoder. Later, of one row, of the cosines and of the means.

        Before the decoder this is the cost of a video in which no place is static.
        """
        if layer == 0:
            return shape.of_video.encoder_attention_macs(sizes.visual)
        return shape.attention_row_macs(sizes.tokens) + 2 * sizes.visual * sizes.budget * shape.hidden


def _inside(sample: Sample, attention: ScoresN) -> tuple[KeptK, MergedKD, Tensor]:
    """The tokens that stay, [K] ascending; what stands there, [K, D]; and where each token went, [N]."""
    kept = top_k(attention, sample.budget)
    features, labels = folded(sample.features, kept)
    return kept, features, kept[labels]
