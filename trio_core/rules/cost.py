"""The cost of a selection: the widths and counts that a method's `overhead` is computed from. No torch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from trio_core.errors import RetentionError
from trio_core.rules.schedule import Proportion, Schedule, shares, stretched


@dataclass(frozen=True)
class LayerShape:
    """The widths that the cost of a selection depends on.

    hidden: width of the residual stream.
    intermediate: width of the FFN.
    query_width: width of all query heads together.
    kv_width: width of all key heads together.
    heads: number of query heads.
    vocabulary: width of the logits.
    ffn_matrices: 3 for a gated FFN, else 2.
    vision_hidden, vision_heads: of the vision tower. 0 in a family whose tower no method reads.
    patches: patches of one crop. 0 if no method reads the tower, or if the crops have any size.
    merged: how many patches become one visual token, in a tower that merges and projects them itself; 0 in any other.
    has_cls: whether the tower has a CLS token.
    frames: how many frames the videos of a sample have together. Each is a crop. 0 for pictures, and if unknown.
    values_normed: whether a norm follows the projection of the values.
    """

    hidden: int
    intermediate: int
    query_width: int
    kv_width: int
    heads: int
    vocabulary: int
    ffn_matrices: int
    vision_hidden: int = 0
    vision_heads: int = 0
    patches: int = 0
    merged: int = 0
    has_cls: bool = True
    frames: int = 0
    values_normed: bool = False

    def crops(self, visual: int) -> tuple[int, ...]:
        """The number of patches of each crop as a method sees them, estimated from the number of visual tokens.

        Crops that were cut to fit cannot be told from whole ones, so this is the nearest number of whole crops. Empty
        in a family whose tower no method reads.

        visual: number of visual tokens.
        """
        if self.frames:
            return (visual // self.frames,) * self.frames
        if self.merged:
            return (visual,)
        return (self.patches,) * max(1, round(visual / self.patches)) if self.patches else ()

    @property
    def token_macs(self) -> int:
        """MACs of the linear layers of one decoder layer for one token."""
        attention = 2 * self.hidden * (self.query_width + self.kv_width)
        return attention + self.ffn_matrices * self.hidden * self.intermediate

    @property
    def of_video(self) -> "LayerShape":
        """The shape for a video. Where its frames are not known, it has as many as the released methods take: 32."""
        return replace(self, frames=self.frames or 32)

    def encoder_attention_macs(self, visual: int) -> int:
        """MACs of `Encoder.attention`: the CLS row of each crop, or all rows in a tower without a CLS token.

        visual: number of visual tokens.
        """
        inside = [self.patches or patches * self.merged for patches in self.crops(visual)]  # before pooling or merging
        return sum(patches + 1 if self.has_cls else patches**2 for patches in inside) * self.vision_hidden

    @property
    def is_projected(self) -> bool:
        """Whether a method sees the patches behind the projector: those of a merging tower, and of a video's frames."""
        return bool(self.merged or self.frames)

    def projection_macs(self, tokens: int) -> int:
        """MACs of projecting some of the tower's patches. 0 if a method sees them projected, or reads no tower.

        tokens: how many patches.
        """
        if self.is_projected or not self.vision_hidden:
            return 0
        return tokens * (self.vision_hidden + self.hidden) * self.hidden

    @property
    def patch_width(self) -> int:
        """Width of the patches that a method sees: the decoder's if they are projected, otherwise the tower's."""
        return self.hidden if self.is_projected else self.vision_hidden

    @property
    def patch_key_width(self) -> int:
        """Width of a patch's key, averaged over the heads of the tower. 0 if no method reads the tower."""
        return self.vision_hidden // max(self.vision_heads, 1)

    def crop_shares(self, visual: int, budget: int) -> list[tuple[int, int]]:
        """For each crop that keeps any patch: how many patches it has, and how many of them it keeps.

        Empty in a family whose tower no method reads.

        visual: number of visual tokens.
        budget: how many of them stay.
        """
        crops = self.crops(visual)
        return [(patches, share) for patches, share in zip(crops, shares(budget, crops), strict=True) if share]

    def similarity_macs(self, visual: int, budget: int) -> int:
        """MACs of the cosine of every pair of patches within each crop that keeps any.

        visual: number of visual tokens.
        budget: how many of them stay.
        """
        return sum(patches * patches for patches, _ in self.crop_shares(visual, budget)) * self.patch_width

    def attention_row_macs(self, tokens: int, rows: int = 1) -> int:
        """MACs of some rows of a layer's attention: the keys of all tokens, and each row's query and scores.

        tokens: tokens of the whole sequence.
        rows: number of rows.
        """
        return tokens * self.hidden * self.kv_width + rows * (self.hidden + tokens) * self.query_width


@dataclass(frozen=True)
class PromptSizes:
    """How many tokens one sample of a prompt has.

    visual_tokens: V0, visual tokens that enter the decoder.
    text_tokens: all other tokens.
    text_after: text tokens after the picture.
    """

    visual_tokens: int
    text_tokens: int
    text_after: int


@dataclass(frozen=True)
class Sizes:
    """How many tokens of one sample a stage sees.

    tokens: tokens of the whole sequence.
    visual: visual tokens among them.
    budget: visual tokens that stay.
    text_after: text tokens after the picture.
    picture: V0, visual tokens that entered the decoder. 0 if unknown.
    """

    tokens: int
    visual: int
    budget: int
    text_after: int
    picture: int = 0


Overhead = Callable[[LayerShape, int, Sizes], int]
"""The MACs of a selection: of a layer's widths, the layer that the stage follows, and its token counts."""


def tail_macs(shape: LayerShape, sizes: Sizes, rows: int) -> int:
    """MACs of TRIO's scores by `tail`, forward and backward.

    The weights are frozen, so the backward pass of a linear layer costs as much as its forward pass. Each token costs
    its key, and for each supervised row and head a score and a share of the row's sum, all of it forward and backward.
    Each visual token costs the sums once more. Each supervised row costs its query, output, FFN and head, and one whole
    value projection for each head. Where a norm follows the values, each token costs its value too, forward and
    backward, and no sums.

    rows: number of supervised rows.
    """
    d, scores, sums = shape.hidden, rows * shape.query_width, rows * shape.heads * shape.hidden
    each_row = 3 * d * shape.query_width + 2 * shape.ffn_matrices * d * shape.intermediate + 2 * d * shape.vocabulary
    if shape.values_normed:
        return sizes.tokens * (4 * d * shape.kv_width + 5 * scores) + rows * each_row
    each_token = 2 * (d * shape.kv_width + scores + sums)
    each_row += 2 * (shape.heads * d * shape.kv_width)
    return sizes.tokens * each_token + sizes.visual * sums + rows * each_row


def suppression_macs(shape: LayerShape, sizes: Sizes) -> int:
    """MACs of a suppression that compares each pair of visual tokens once."""
    return sizes.visual * sizes.visual * shape.hidden


def without_losing_stages(
    schedule: Schedule, retention: float, proportion: Proportion, shape: LayerShape, overhead: Overhead
) -> Schedule:
    """A schedule without the stages that cost more than they save. The layer average stays.

    A stage costs its selection. It saves the linear layers' products of the tokens that it drops, in all layers behind
    it. Both are counted for visual tokens alone. A stage stays if the others could not keep the average, and a stage
    that drops nothing counts as if it selected.

    schedule: of all stages.
    retention, proportion: which it was solved for.
    """
    layers, shares_left = list(schedule.layers), stretched(len(schedule.layers), proportion)
    needed: set[int] = set()
    while len(layers) > 1:
        losses = _losses(schedule, shape, overhead)
        removable = [(losses[i], i) for i, layer in enumerate(layers) if layer not in needed]
        loss, worst = max(removable, default=(0, 0))
        if loss <= 0:
            break
        others = layers[:worst] + layers[worst + 1 :]
        of_others = shares_left[:worst] + shares_left[worst + 1 :]
        sizes = {"visual_tokens": schedule.visual_tokens, "num_layers": schedule.num_layers}
        try:
            schedule = Schedule.average(retention=retention, layers=others, proportion=of_others, **sizes)
        except RetentionError:
            needed.add(layers[worst])
            continue
        layers, shares_left = others, of_others
    return schedule


def _losses(schedule: Schedule, shape: LayerShape, overhead: Overhead) -> list[int]:
    """By how many MACs each stage costs more than it saves, if it selects."""
    ladder = pairwise((schedule.visual_tokens, *schedule.budgets))
    return [
        overhead(shape, layer, Sizes(before, before, kept, 0, schedule.visual_tokens))
        - (before - kept) * (schedule.num_layers - layer) * shape.token_macs
        for layer, (before, kept) in zip(schedule.layers, ladder, strict=True)
    ]
