"""FastVID: dynamic density pruning for fast video large language models (arXiv 2503.11187)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.crops import TowerMethod, all_tokens, check_room
from trio_core.methods.method import Media, Reference, within
from trio_core.methods.view import Sample, Selection, View
from trio_core.rules.checks import check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means, density_peaks, squared_distances
from trio_core.rules.schedule import shares
from trio_core.rules.selection import unit_rows
from trio_core.tensors import FeaturesND, KeptK, ScoresN, widened

NEIGHBOURS = 4
"""How many nearest tokens make a token's density. The token itself is one of them."""


def segment_lengths(frames: Tensor, segments: int, similarity: float) -> list[int]:
    """How many frames each segment has. The video is cut where a frame is least like the one before.

    frames: [F, P, D]. Two frames are compared by the cosine of their mean tokens.
    segments: the least number of segments. In a shorter video each frame is one.
    similarity: the video is cut at each cosine below this one too.

    The host waits for the cosines.
    """
    mean = F.normalize(widened(frames).mean(dim=1), dim=-1)
    likeness = (mean[1:] * mean[:-1]).sum(dim=-1)
    is_cut = likeness < similarity
    is_cut[likeness.argsort(stable=True)[: segments - 1]] = True
    ends = [frame for frame, cut in enumerate(is_cut.tolist(), start=1) if cut]
    return [end - start for start, end in pairwise([0, *ends, len(frames)])]


def frame_budgets(
    budget: int, frames: int, tokens: int, context_share: float, step: int
) -> tuple[list[int], list[int]]:
    """[L] and [L]: how many salient tokens and how many anchors each frame of a segment keeps. Together: `budget`.

    Anchors stand in the last frame and in every `step`-th frame before it. What a full frame cannot take goes to the
    other frames' anchors, and then to salient tokens.

    frames: L.
    tokens: P, of each frame.
    """
    anchors = int(budget * context_share)
    salient = shares(budget - anchors, [tokens] * frames)
    context = [0] * frames
    context[::-step] = shares(anchors, [tokens - count for count in salient[::-step]])
    return shares(budget - sum(context), [tokens - count for count in context]), context


def condense(
    frames: Tensor, attention: Tensor, salient: list[int], context: list[int], anchor_weight: float
) -> tuple[KeptK, FeaturesND]:
    """[K] ascending, the tokens that stay of one segment as indices into its L · P, and [K, D], what stands there.

    frames: [L, P, D].
    attention: [L, P].
    salient, context: what `frame_budgets` returned. The salient tokens of a frame have the most attention; its anchors
        are density peaks of the others.
    """
    tokens = widened(frames).flatten(0, 1)
    states = tokens.clone()
    first = torch.arange(0, len(tokens), frames.shape[1], device=tokens.device)[:, None]
    ranked = first + attention.argsort(dim=1, descending=True, stable=True)
    kept = [row[:count] for row, count in zip(ranked, salient, strict=True)]
    all_salient = torch.cat(kept)
    for row, start, count in zip(ranked, salient, context, strict=True):
        if count:
            others = row[start:].sort().values
            anchors = others[density_peaks(squared_distances(tokens[others]), NEIGHBOURS)[:count]].sort().values
            states[anchors] = merged_into(anchors, tokens, all_salient, anchor_weight)
            kept.append(anchors)
    indices = torch.cat(kept).sort().values
    return indices, states[indices].to(frames.dtype)


def merged_into(anchors: KeptK, tokens: FeaturesND, salient: KeptK, anchor_weight: float) -> FeaturesND:
    """[A, D]: each anchor, averaged with the mean of the tokens of its segment that are most similar to it.

    The anchor's weight is 1 / (n + 1) where n tokens join it, and `anchor_weight` at least.

    tokens: [N, D], of the segment.
    salient: indices of the salient tokens, which join no anchor. The anchors of other frames join too.
    """
    unit = unit_rows(tokens)
    labels = (unit @ unit[anchors].T).argmax(dim=1).index_fill_(0, torch.cat([salient, anchors]), -1)
    joined = (labels == torch.arange(len(anchors), device=labels.device)[:, None]).sum(dim=1, keepdim=True)
    own = (1 / (joined + 1)).to(tokens.dtype).clamp_min(anchor_weight)
    return own * tokens[anchors] + (1 - own) * cluster_means(tokens, labels, len(anchors))


@dataclass(frozen=True, kw_only=True)
class FastVID(TowerMethod):
    """Keep the most attended tokens of each frame, and merge each segment of a video into a few others.

    The others are anchors, at peaks of density. In each frame with anchors, every token of the segment that is not
    salient joins the nearest of them.

    segments: least number of segments.
    similarity: a video is cut between frames with a cosine below it.
    context_share: share of the budget for anchors.
    anchor_step: one frame in so many has anchors.
    anchor_weight: least weight of an anchor in its mean.
    """

    segments: int = within("[1, inf)", 8)
    similarity: float = within("[-1, 1]", 0.84)
    context_share: float = within("[0, 1]", 0.4)
    anchor_step: int = within("[1, inf)", 4)
    anchor_weight: float = within("[0, 1]", 0.6)

    name: ClassVar[str] = "fastvid"
    media: ClassVar[Media] = "videos"
    reference: ClassVar[Reference] = Reference(
        title="FastVID: Dynamic Density Pruning for Fast Video Large Language Models",
        arxiv="2503.11187",
        repository="LunarShen/FastVID",
        commit="a40a109cb8df20e8c2c17c6850f8269717369990",
        note="The rule is that of the paper, as the code for LLaVA-Video runs it. Frames and their attention are read "
        "as in the code for Qwen2.5-VL: a frame is the mean of its tokens. The code for LLaVA asks SigLIP's pooling "
        "head, which the checkpoints of Hugging Face leave out. The code for Qwen2.5-VL also empties a frame whose "
        "cosine with the next frame is 0.95 or more. The others do not, and neither do we. A cosine of 0.84 is that "
        "code's; the code for LLaVA has 0.9. The attention of a token is what it receives from all patches of its "
        "frame (on LLaVA-OneVision the mean over the patches that are pooled into it). The code for Qwen2.5-VL gives "
        "it the attention of their mean query to its mean key. The released code rounds the budget of each frame down. "
        "Anchors that a frame has no room for go to other frames, and then to salient tokens; the released code fails "
        "there.",
    )

    def select(self, view: View) -> Selection:
        """Condense the segments one by one. The scores are the attention that tokens receive in the tower."""
        scores = tuple(view.encoder.attention_of(sample.index) for sample in view.samples)
        check_finite("attention or hidden states", *scores, *(sample.features for sample in view.samples))
        kept, features = zip(*(self._sample(sample, scores[sample.index]) for sample in view.samples), strict=True)
        return Selection(kept, scores, features)

    def _sample(self, sample: Sample, attention: ScoresN) -> tuple[KeptK, FeaturesND]:
        """[K] ascending, the tokens that stay of one sample, and [K, D], what stands there."""
        features = sample.features
        if sample.keeps_all:
            return all_tokens(sample), features
        kept, states = [], []
        for number, budget in self._segments(sample):
            frames, tokens = number.shape
            salient, context = frame_budgets(budget, frames, tokens, self.context_share, self.anchor_step)
            indices, condensed = condense(features[number], attention[number], salient, context, self.anchor_weight)
            kept.append(number.flatten()[indices])
            states.append(condensed)
        return torch.cat(kept), torch.cat(states)

    def _segments(self, sample: Sample) -> Iterator[tuple[Tensor, int]]:
        """The numbers of the tokens of each segment, [L, P], and its budget. Each frame has an equal share.

        Raises OptionError for a budget larger than the tokens of all frames.
        """
        sizes = [len(frame) for video in sample.videos for frame in video.number]
        check_room(sample, sum(sizes))
        parts = iter(shares(sample.budget, sizes))
        for video in sample.videos:
            lengths = segment_lengths(sample.features[video.number], self.segments, self.similarity)
            for number in video.number.split(lengths):
                yield number, sum(islice(parts, len(number)))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, of the densities, and of comparing and averaging tokens.

        This is the cost of a video whose segments are as few and as equal as they can be.
        """
        frames = shape.of_video.frames
        tokens, segments = sizes.visual // frames, min(self.segments, frames)
        merging, budgets = 0, iter(shares(min(sizes.budget, frames * tokens), [tokens] * frames))
        for length in (frames // segments + (number < frames % segments) for number in range(segments)):
            budget = sum(islice(budgets, length))
            counts = zip(*frame_budgets(budget, length, tokens, self.context_share, self.anchor_step), strict=True)
            merging += sum((tokens - own) ** 2 + 2 * length * tokens * anchors for own, anchors in counts if anchors)
        return shape.of_video.encoder_attention_macs(sizes.visual) + merging * shape.hidden
