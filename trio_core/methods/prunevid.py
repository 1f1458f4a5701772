"""PruneVid: visual token pruning for efficient video large language models (arXiv 2412.16117)."""

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.methods.method import Method, Reference, Stage, within
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import Segment, dpc_knn, over_time, with_static_places
from trio_core.rules.schedule import proportional
from trio_core.rules.selection import top_k
from trio_core.tensors import KeptK, ScoresN, widened


def steady_runs(labels: list[int]) -> list[int]:
    """How many frames each segment has. A segment is a run of frames with one label.

    A label keeps its longest runs, if they have two frames or more. The frames between them join the longer of the two
    runs beside them; the first if they are equally long. Runs of one label that then meet are one.

    labels: [F], the cluster of each frame.
    """
    runs = [(label, len(list(frames))) for label, frames in groupby(labels)]
    longest = {label: max(length for other, length in runs if other == label) for label in labels}
    segments: list[tuple[int, int]] = []
    between = 0
    for label, length in runs:
        if length == 1 or length < longest[label]:
            between += length
            continue
        frames = length
        if segments and (segments[-1][1] >= length or segments[-1][0] == label):
            segments[-1] = (segments[-1][0], segments[-1][1] + between)
        else:
            frames += between
        if segments and segments[-1][0] == label:
            frames += segments.pop()[1]
        segments.append((label, frames))
        between = 0
    lengths = [frames for _, frames in segments]
    return [*lengths[:-1], lengths[-1] + between] if lengths else [len(labels)]


def similarity_over_time(frames: Tensor) -> ScoresN:
    """[P]: the mean cosine of each pair of frames at each place; −1 if there is one frame.

    frames: [L, P, D].

    The result is in float32, or in float64 for float64 inputs.
    """
    count = len(frames)
    unit = F.normalize(widened(frames), dim=-1)
    pairs = unit.sum(dim=0).square().sum(dim=-1) - count
    return pairs / (count * (count - 1)) if count > 1 else torch.full_like(pairs, -1)


def text_attention(query: Tensor, keys: Tensor, valid: Tensor) -> ScoresN:
    """[S]: the largest attention that a text token pays to each token, without rotary and without a causal mask.

    It is the maximum over heads and text rows of softmax(q · k / √E). The softmax runs over all tokens but padding.

    query: [T, H, E], of the text, before rotary.
    keys: [S, N, E], of all tokens, before rotary. H / N query heads read one key head.
    valid: [S], False at padding. The result is 0 there.

    The result is in float32, or in float64 for float64 inputs.
    Source: ACL 2025, Visual-AI/PruneVid at b12600c.
    """
    query_NRE = widened(query).unflatten(1, (keys.shape[1], -1)).permute(1, 2, 0, 3).flatten(1, 2)
    scores_NRS = query_NRE @ widened(keys).permute(1, 2, 0) / keys.shape[-1] ** 0.5
    return scores_NRS.masked_fill(~valid, -torch.inf).softmax(dim=-1).amax(dim=(0, 1))


@dataclass(frozen=True, kw_only=True)
class PruneVid(Method):
    """Merge tokens into clusters before the decoder, and later drop what the text attends to least.

    The mean of a cluster stands at the place of its centre. A video is cut into segments. What does not change in a
    segment is averaged over its frames first, and clustered apart from the rest of each frame.

    segment_share: share of the frames that are centres of segments. There is one at least.
    similarity: a place does not change if the mean cosine of its tokens is above this.
    """

    segment_share: float = within("(0, 1]", 0.25)
    similarity: float = within("[-1, 1]", 0.8)

    name: ClassVar[str] = "prunevid"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    proportion: ClassVar[tuple[int, ...]] = (5, 2)
    """As released: half of the tokens, then 0.4 of the half."""
    paper_layers: ClassVar[tuple[int, ...]] = (11,)
    reference: ClassVar[Reference] = Reference(
        title="PruneVid: Visual Token Pruning for Efficient Video Large Language Models",
        arxiv="2412.16117",
        repository="Visual-AI/PruneVid",
        commit="b12600c6176c606ee4b6b7d9e26f4aa46d0dfd42",
        licence="CC BY-NC-SA 4.0",
        note="The rule is written from its description, not from the code. The released code is for videos only. Here "
        "tokens in no frame are one block more, and a picture is that block alone. Each block has its share of the "
        "budget, in proportion to its tokens. The released code rounds half of each block down, and leaves blocks of "
        "up to 14 tokens as they are. If averaging over time would leave fewer tokens than the budget, only the most "
        "similar places are averaged. In the decoder the blocks are the frames: static tokens compete with the others "
        "of the first frame of their segment. In the released code they are a block of their own. A mean stands at the "
        "place of its centre. The released code puts the means of static tokens first. It divides by zero in a segment "
        "of one frame. Here no place of it is static. It trims the caches of the layers before the second stage, and "
        "here you cannot.",
    )

    def select(self, view: View) -> Selection:
        """Merge before the decoder. Later, rank by the attention of the layer that has just run."""
        if view.layer == 0:
            return view.merged([self._clusters(sample) for sample in view.samples])
        call = view.probed("current")
        layer = call.attention()
        normed = layer.norm(call.hidden)
        keys, kept, scores = layer.key(normed), [], []
        for sample in view.samples:
            query = layer.query_at(normed[sample.index][None], sample.text_rows[None])[0]
            scores.append(text_attention(query, keys[sample.index], view.valid[sample.index])[sample.rows])
            kept.append(top_of_each_frame(sample, scores[-1]))
        return Selection(tuple(kept), tuple(scores))

    def _clusters(self, sample: Sample) -> tuple[KeptK, Tensor]:
        """The centres, [K] ascending, and the cluster of each token, [N]; −1 for a token of a block without a share."""
        features = sample.features
        if not sample.videos:
            return dpc_knn(features, sample.budget)
        segments = self._segments(sample)
        states, part_of = over_time(features, segments)
        in_no_frame = (sample.frame < 0).nonzero()[:, 0]
        blocks = [in_no_frame, *(block for segment in segments for block in segment.blocks)]
        centre_of, kept = torch.full_like(part_of, -1), []
        for block, count in zip(blocks, proportional(sample.budget, [len(block) for block in blocks]), strict=True):
            if count:
                centres, labels = dpc_knn(states[block], count)
                kept.append(block[centres])
                centre_of[block] = kept[-1][labels]
        centres, centre_of = torch.cat(kept).sort().values, centre_of[part_of]
        return centres, torch.searchsorted(centres, centre_of).where(centre_of >= 0, -1)

    def _segments(self, sample: Sample) -> list[Segment]:
        """The segments of all videos of a sample, in order."""
        features, numbers = sample.features, []
        for video in sample.videos:
            means = widened(features[video.number]).mean(dim=1)
            labels = dpc_knn(means, max(int(len(means) * self.segment_share), 1))[1]
            numbers += video.number.split(steady_runs(labels.tolist()))
        similarity = [similarity_over_time(features[number]) for number in numbers]
        return with_static_places(numbers, similarity, self.similarity, len(features) - sample.budget)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the distances and means before the decoder. Later, of all keys, of the text's queries and rows.

        Before the decoder this is the cost of a picture, or of a video in which no place is static.
        """
        if layer == 0:
            pairs = sum(tokens**2 for tokens in shape.crops(sizes.visual)) if shape.frames else sizes.visual**2
            return (pairs + shape.frames**2 + sizes.visual * sizes.budget) * shape.hidden
        return shape.attention_row_macs(sizes.tokens, sizes.text_after)


def top_of_each_frame(sample: Sample, scores: ScoresN) -> KeptK:
    """[K], ascending: the tokens of each frame with the highest scores. Each frame keeps the same share.

    scores: [N].
    """
    if not sample.videos:
        return top_k(scores, sample.budget)
    blocks = [(sample.frame == frame).nonzero()[:, 0] for frame in sample.frame.unique()]
    parts = proportional(sample.budget, [len(block) for block in blocks])
    kept = [block[top_k(scores[block], part)] for block, part in zip(blocks, parts, strict=True) if part]
    return torch.cat(kept).sort().values
