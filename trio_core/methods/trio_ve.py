"""TRIO with the vision encoder: SCOPE before the decoder, then TRIO inside it (arXiv 2602.04657)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from trio_core.methods.combined import TwoParts
from trio_core.methods.method import Method, Reference
from trio_core.methods.scope import Scope
from trio_core.methods.trio import Trio
from trio_core.methods.view import Signal


@dataclass(frozen=True, kw_only=True)
class TrioVe(TwoParts, Trio):
    """Prune the encoder's output by SCOPE, and the rest by TRIO half-way through the decoder.

    alpha: SCOPE's power of the attention.
    """

    alpha: float = 1.0

    name: ClassVar[str] = "trio-ve"
    needs: ClassVar[frozenset[Signal]] = Trio.needs | Scope.needs
    proportion: ClassVar[tuple[int, ...]] = (96, 32)
    paper_layers: ClassVar[tuple[int, ...]] = (16,)
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        caution="SCOPE before the decoder, then trio as ours",
        note="The stage in the encoder follows SCOPE's rule (arXiv 2510.24214). That is our decision: the paper's "
        "abstract names VisionZip. The released code scans and merges as VScan does, and here you cannot. Run "
        "visionzip+trio with layers=(16,) for VisionZip: encoder_retention is 1.5 times the retention there. "
        f"{Trio.reference.note}",
    )

    def parts(self) -> tuple[Method, Method]:
        """SCOPE, and TRIO with our options. They read their budgets from the view."""
        options = {name: getattr(self, name) for name in Trio.option_names()}
        scope = Scope(retention=1.0, alpha=self.alpha, positions=self.positions)
        return scope, Trio(**{**options, "retention": 1.0, "layers": None, "budgets": None})
