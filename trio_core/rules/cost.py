"""What a selection costs: the widths and counts of which a method's `overhead` is made. Integers only, no torch."""

from dataclasses import dataclass

from trio_core.rules.schedule import shares


@dataclass(frozen=True)
class LayerShape:
    """The widths that a selection's cost depends on. All counts; `ffn_matrices` is 3 for a gated FFN, else 2.

    vision_hidden, vision_heads, patches: of the tower and of one crop, 0 in a family whose tower no method looks into.
    merged: the patches behind one visual token of a tower that merges and projects them itself, 0 in any other; such a
    tower has no CLS token, and crops of any size, so that `patches` is 0.
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

    def crops(self, visual: int) -> tuple[int, ...]:
        """The patches of each crop behind so many visual tokens: as many crops as they make whole, or one picture.

        Nobody says how many crops were cut to fit, nor how many pictures there are. None in a family whose tower no
        method looks into.
        """
        if self.merged:
            return (visual,)
        return (self.patches,) * max(1, round(visual / self.patches)) if self.patches else ()

    def encoder_attention_macs(self, visual: int) -> int:
        """MACs of `Encoder.attention`: each crop's CLS row, or all rows of a tower that has no CLS token."""
        if self.merged:
            return sum((patches * self.merged) ** 2 for patches in self.crops(visual)) * self.vision_hidden
        return sum(patches + 1 for patches in self.crops(visual)) * self.vision_hidden

    def similarity_macs(self, visual: int, budget: int) -> int:
        """MACs of the cosine of every pair of patches, in the tower's width, within each crop that keeps any."""
        crops = self.crops(visual)
        pairs = sum(n * n for n, share in zip(crops, shares(budget, crops), strict=True) if share)
        return pairs * (self.hidden if self.merged else self.vision_hidden)

    def attention_row_macs(self, tokens: int, rows: int = 1) -> int:
        """MACs of so many rows of a layer's attention: the keys of all tokens, a row's query, its scores."""
        return tokens * self.hidden * self.kv_width + rows * (self.hidden + tokens) * self.query_width


@dataclass(frozen=True)
class Sizes:
    """What one stage looks at, in tokens of one sample.

    tokens: of the whole sequence. visual: of them, the picture's. budget: of those, the ones that stay. text_after: the
    text behind the picture. picture: those that entered the decoder, V0; 0 where it is not said.
    """

    tokens: int
    visual: int
    budget: int
    text_after: int
    picture: int = 0
