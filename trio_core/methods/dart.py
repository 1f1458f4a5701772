"""DART: duplication matters more than importance (arXiv 2502.11494), inside the decoder and before it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.method import Method, Reference, Stage, within
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.rules.attention import rotate, rotate_back
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import proportional
from trio_core.rules.selection import top_k, unit_rows
from trio_core.tensors import FeaturesND, KeptK, KeysNE, widened


def least_duplicated(
    keys: KeysNE,
    hidden: FeaturesND,
    text_keys: Tensor,
    text_hidden: Tensor,
    budget: int,
    pivots_visual: int = 4,
    pivots_text: int = 4,
) -> KeptK:
    """[K], the indices of the visual tokens to keep, ascending: a few pivots, and the tokens least like them.

    Pivots are the visual and the text tokens whose keys have the largest L1 norm. Each pivot in turn takes, of the
    visual tokens that are left, those with the lowest cosine to it. Visual pivots come first, each kind in ascending
    order. Visual pivots are kept; text pivots only take others. The rest of the budget is shared equally, and earlier
    pivots take one more where it does not divide. If the budget does not exceed the visual pivots, the strongest stay.
    Ties go to the lower index.

    keys: [N, E], the picture's keys after rotary, heads side by side.
    hidden: [N, D], the picture's hidden states after the model's final norm.
    text_keys: [T, E], keys of the text after the picture.
    text_hidden: [T, D], hidden states of that text.
    budget: K in 1 … N.
    pivots_visual, pivots_text: how many pivots of each kind.

    The host waits for the device only to check the inputs. Raises OptionError for a budget out of range, and for keys
    or hidden states that are not finite. Source: ZichenWen1/EPIC at b2ed9cd.
    """
    check_budget(budget, len(keys))
    strength, text_strength = (torch.linalg.vector_norm(widened(part), 1, dim=-1) for part in (keys, text_keys))
    pivots = top_k(strength, min(pivots_visual, budget))
    if budget <= pivots_visual:
        return pivots
    probes = top_k(text_strength, min(pivots_text, len(text_keys)))
    unit = unit_rows(hidden)
    likeness = torch.cat([unit[pivots], unit_rows(text_hidden[probes])]) @ unit.T
    check_finite("hidden states", likeness)
    likeness.index_fill_(1, pivots, torch.inf)
    each, more = divmod(budget - len(pivots), len(likeness))
    kept = [pivots]
    for number, row in enumerate(likeness):
        kept.append(row.argsort(stable=True)[: each + (number < more)])
        likeness.index_fill_(1, kept[-1], torch.inf)
    return torch.cat(kept).sort().values


@dataclass(frozen=True, kw_only=True)
class Dart(Method):
    """Keep a few strong visual tokens, and those that are least similar to them.

    pivots_visual: how many visual tokens are pivots.
    pivots_text: how many tokens of the text after the picture are pivots.
    """

    pivots_visual: int = within("[1, inf)", 4)
    pivots_text: int = within("[1, inf)", 4)

    name: ClassVar[str] = "dart"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.NORM})
    paper_layers: ClassVar[tuple[int, ...]] = (2,)
    scales_layers: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference(
        title="Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters More",
        arxiv="2502.11494",
        repository="ZichenWen1/EPIC",
        commit="b2ed9cdfda546bd10c0100e92624d30ccf58af59",
        note="The repository is a later one of the same authors; the code of the paper itself is not public in full. "
        "Pivots are visited in ascending order; the code visits them in the order of a Python set. The code keeps the "
        "visual pivots and adds equal shares (with 196, 132 and 68 tokens that is the budget too), and it counts the "
        "tokens after layer 2, as budget_rule='after-prune' does. Keys are rotated from the first token of the sample, "
        "so that padding changes nothing.",
    )

    def select(self, view: View) -> Selection:
        """Pivots come from the keys of the layer that has just run, and cosines from what that layer made."""
        call = view.probed("current")
        layer = call.attention()
        cos, sin = (part.expand(len(view.valid), -1, -1) for part in call.rotary)
        keys = rotate(layer.key(layer.norm(call.hidden)), cos, sin)
        # Padding at the left shifts all positions, and that changes an L1 norm. So positions count from the sample's
        # first token: its rotation is taken back.
        first = view.valid.int().argmax(dim=1)[:, None, None].expand(-1, 1, cos.shape[-1])
        keys = rotate_back(keys, cos.gather(1, first), sin.gather(1, first)).flatten(2)
        hidden, kept = view.norm(view.hidden), []
        for sample in view.samples:
            picture, text = (
                (keys[sample.index, rows], hidden[sample.index, rows]) for rows in (sample.rows, sample.text_rows)
            )
            kept.append(least_duplicated(*picture, *text, sample.budget, self.pivots_visual, self.pivots_text))
        return Selection(tuple(kept))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the keys of all tokens, and of the cosines of visual tokens and pivots."""
        return sizes.tokens * shape.hidden * shape.kv_width + self._cosine_macs(shape, sizes, sizes.text_after)

    def _cosine_macs(self, shape: LayerShape, sizes: Sizes, text: int) -> int:
        """MACs of the cosines of visual tokens and pivots. text: how many tokens may be text pivots."""
        if sizes.budget <= self.pivots_visual:
            return 0
        return (self.pivots_visual + min(self.pivots_text, text)) * sizes.visual * shape.hidden


@dataclass(frozen=True, kw_only=True)
class DartOnEmbeddings(Dart):
    """Run DART before the decoder: keep a few strong tokens, and those least similar to them."""

    name: ClassVar[str] = "dart-embeddings"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset()
    reference: ClassVar[Reference] = replace(
        Dart.reference,
        repository="nvluxiaoz/TensorRT-Edge-LLM",
        commit="2add2e29d55b0f4b6c6de73d02a6faf29a973e0d",
        note="The rule of TensorRT Edge-LLM (--visualPrune), read in a fork: NVIDIA's own may differ. Pivots and "
        "cosines come from the embeddings that enter the decoder, without norm and rotation. Text before the picture "
        "counts too. Each run of visual tokens (a picture, a frame between texts) is pruned on its own, with a budget "
        "in proportion to its tokens. The engine rounds each budget up. It visits the strongest pivot first; here "
        "pivots are visited in ascending order. The engine leaves prompts of fewer than 16 visual tokens as they are.",
    )

    def select(self, view: View) -> Selection:
        """Select in each run of visual tokens on its own."""
        return Selection(tuple(torch.cat([*self._runs(sample)]) for sample in view.samples))

    def _runs(self, sample: Sample) -> Iterator[KeptK]:
        """The kept tokens of each run, as indices into the sample's visual tokens. The host waits for the places."""
        valid, rows, features = sample.view.valid[sample.index], sample.rows, sample.features
        text = sample.view.hidden[sample.index][valid.clone().index_fill_(0, rows, False)]
        ends = [*((rows.diff() > 1).nonzero().squeeze(1) + 1).tolist(), len(rows)]
        lengths, first = [end - start for start, end in pairwise([0, *ends])], 0
        for run, budget in zip(features.split(lengths), proportional(sample.budget, lengths), strict=True):
            if budget:
                yield first + least_duplicated(run, run, text, text, budget, self.pivots_visual, self.pivots_text)
            first += len(run)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the cosines of visual tokens and pivots, for one run of tokens."""
        return self._cosine_macs(shape, sizes, sizes.tokens - sizes.visual)
