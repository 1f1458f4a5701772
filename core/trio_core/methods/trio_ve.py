"""TRIO with the vision encoder: SCOPE before the decoder, then TRIO inside it (arXiv 2602.04657)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from trio_core.errors import OptionError
from trio_core.methods.method import Reference, Stage
from trio_core.methods.scope import Scope
from trio_core.methods.trio import Trio
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, default_layers


@dataclass(frozen=True, kw_only=True)
class TrioVe(Trio):
    """Prune the encoder's output by SCOPE, and the rest by TRIO half-way through the decoder.

    alpha: SCOPE's power of the attention.

    The other options are TRIO's. tokens "all" is refused: the encoder has no text tokens.
    """

    alpha: float = 1.0

    name: ClassVar[str] = "trio-ve"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = Trio.needs | Scope.needs
    proportion: ClassVar[tuple[int, ...]] = (96, 32)
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        caution="SCOPE before the decoder, then trio as ours",
        note="The stage in the encoder follows SCOPE's rule (arXiv 2510.24214). That is our decision: the paper's "
        f"abstract names VisionZip, and the released code scans and merges as VScan does. {Trio.reference.note}",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens != "visual":
            raise OptionError(f"tokens {self.tokens!r}: trio-ve begins in the encoder, which has no text; use trio")
        self._scope()  # refuses an alpha out of range

    def _scope(self) -> Scope:
        """SCOPE with our alpha. It reads its budgets from the view, so that its retention does not matter."""
        return Scope(retention=1.0, alpha=self.alpha)

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder and after layer 16 of 32, in proportion elsewhere."""
        return (0, *default_layers(num_layers, (16,)))

    def select(self, view: View) -> Selection:
        """SCOPE before the first layer, TRIO after it."""
        if view.layer == 0:
            return self._scope().select(view)
        return super().select(view)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of SCOPE's selection before the decoder, of TRIO's inside it."""
        return (self._scope() if layer == 0 else super()).overhead(shape, layer, sizes)
