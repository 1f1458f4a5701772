"""PyramidDrop: a pyramid of visual redundancy reduction (arXiv 2410.17247)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Reference, ScoreMethod
from trio_core.methods.view import Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, Proportion, retention_of
from trio_core.tensors import ScoresN

LEAST_SHARE = 2.0**-20
"""The smallest share of the tokens that a stage is asked to keep, so that shares stay positive numbers."""


@dataclass(frozen=True, kw_only=True)
class PyramidDrop(ScoreMethod):
    """Drop, at several depths, the visual tokens that the last token attends to least.

    The attention is that of the next layer, which has not run yet.

    After stage i, λ^i of the tokens are left; the retention determines λ. The paper has λ = 1/2 at layers 8, 16 and 24
    of 32. These layers cannot average below a quarter of the tokens. For less, the author advises layers=(2, 8, 16).
    """

    name: ClassVar[str] = "pyramiddrop"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    paper_layers: ClassVar[tuple[int, ...]] = (8, 16, 24)
    reference: ClassVar[Reference] = Reference(
        title="PyramidDrop: Accelerating Your Large Vision-Language Models via Pyramid Visual Redundancy Reduction",
        arxiv="2410.17247",
        repository="Cooperx521/PyramidDrop",
        commit="6444f304aee4b7edcb022839fb9e8cd07859704a",
        trained="optional",  # README.md at this commit: inference, and "Efficient Training"
        note="The factor λ between stages is solved for, so that the retention is the average over layers. The code "
        "rounds each budget down. It projects queries, keys and values of all tokens to get one row of attention. Here "
        "only the keys of all tokens are projected. In training the code ranks by all tokens before the answers, and "
        "here you cannot.",
    )

    def profile(self, layers: Layers, num_layers: int) -> Proportion:
        """λ, λ², λ³, …, with the λ at which the retention is met."""
        assert self.retention is not None
        low, high = 0.0, 1.0
        for _ in range(60):  # halvings; more than a float has digits
            middle = (low + high) / 2
            if retention_of(_powers(middle, len(layers)), layers, num_layers, self.budget_rule) < self.retention:
                low = middle
            else:
                high = middle
        return _powers(high, len(layers))

    def score(self, view: View) -> Sequence[ScoresN]:
        """The last token's attention in the next layer, averaged over the heads."""
        return view.attention_of_last("next")

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the one row."""
        return shape.attention_row_macs(sizes.tokens)


def _powers(base: float, count: int) -> list[float]:
    """[count], the powers 1 … count of a base in [0, 1]."""
    return [max(base**power, LEAST_SHARE) for power in range(1, count + 1)]
