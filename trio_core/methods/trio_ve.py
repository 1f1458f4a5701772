"""TRIO behind the vision encoder's own pruning: SCOPE before the decoder, then TRIO (arXiv 2602.04657)."""

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
    """Let SCOPE prune what the encoder saw, and TRIO rank what is left of it half-way through the decoder.

    alpha: SCOPE's. All other options are TRIO's, but for tokens "all": the encoder has no text to choose from.
    """

    alpha: float = 1.0

    name: ClassVar[str] = "trio-ve"
    stage: ClassVar[Stage] = Stage.BOTH
    needs: ClassVar[frozenset[Signal]] = Trio.needs | Scope.needs
    proportion: ClassVar[tuple[int, ...]] = (96, 32)
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        note="The VE stage is SCOPE's rule (arXiv 2510.24214) by choice: the paper's abstract speaks of VisionZip, and "
        f"the released code scans and merges as VScan does. {Trio.reference.note}",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens != "visual":
            raise OptionError(f"tokens {self.tokens!r}: trio-ve begins in the encoder, which has no text; use trio")
        self._scope()  # which refuses an alpha that it does not take

    def _scope(self) -> Scope:
        """SCOPE with our options; the budgets that it reads stand in the view."""
        return Scope(retention=1.0, alpha=self.alpha)

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder and after layer 16 of 32, in proportion elsewhere."""
        return (0, *default_layers(num_layers, (16,)))

    def select(self, view: View) -> Selection:
        """SCOPE before the first layer; from there on TRIO, to whom what SCOPE left is the whole picture."""
        if view.layer == 0:
            return self._scope().select(view)
        return super().select(view)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of SCOPE's choice before the decoder, of TRIO's within it."""
        return (self._scope() if layer == 0 else super()).overhead(shape, layer, sizes)
