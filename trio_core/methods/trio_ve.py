"""TRIO with the vision encoder: SCOPE before the decoder, then TRIO inside it (arXiv 2602.04657)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from trio_core.errors import OptionError
from trio_core.methods.combined import TwoParts
from trio_core.methods.finding import find
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.scope import Scope
from trio_core.methods.trio import Trio
from trio_core.methods.view import Signal


@dataclass(frozen=True, kw_only=True)
class TrioVe(TwoParts, Trio):
    """Prune the encoder's output by SCOPE, and the rest by TRIO half-way through the decoder.

    encoder: name of the method that acts before the decoder, such as visionzip.
    alpha: SCOPE's power of the attention. With another encoder it is refused.
    """

    encoder: str = "scope"
    alpha: float = 1.0

    name: ClassVar[str] = "trio-ve"
    needs: ClassVar[frozenset[Signal]] = Trio.needs | Scope.needs
    proportion: ClassVar[tuple[int, ...]] = (96, 32)
    paper_layers: ClassVar[tuple[int, ...]] = (16,)
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        caution="SCOPE before the decoder, then trio as ours",
        note="By default the stage in the encoder follows SCOPE's rule (arXiv 2510.24214). That is our decision: the "
        "paper's abstract names VisionZip. The released code scans and merges as VScan does, and here you cannot. With "
        "encoder=visionzip the stage follows VisionZip (arXiv 2412.04467). Any other method of the encoder stage can "
        "stand there with its default options. The proportion 96:32 and layer 16 stay. To choose those, or the options "
        f"of the method in the encoder, run a combination such as visionzip+trio. {Trio.reference.note}",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder != Scope.name:
            object.__setattr__(self, "reference", replace(type(self).reference, caution=self._remark()))

    def _remark(self) -> str:
        """The remark of tables beside it: whose rule stands in the encoder, and whether its code may be used."""
        name = self.encoder if len(self.encoder) <= 24 else "a method of yours"
        licence = "; non-commercial code" if "NC" in self.encoder_part.reference.licence else ""
        return f"{name}, then trio as ours{licence}"

    def parts(self) -> tuple[Method, Method]:
        """The method in the encoder, and TRIO with our options. They read their budgets from the view."""
        options = {name: getattr(self, name) for name in Trio.option_names()}
        return self._in_encoder(), Trio(**{**options, "retention": 1.0, "layers": None, "budgets": None})

    def _in_encoder(self) -> Method:
        """SCOPE with our alpha, or the method that `encoder` names."""
        if self.encoder == Scope.name:
            return Scope(retention=1.0, alpha=self.alpha, positions=self.positions)
        if self.alpha != 1.0:
            raise OptionError(
                f"alpha {self.alpha} is an option of scope, and encoder is {self.encoder!r}: leave it out"
            )
        cls = find(self.encoder)
        if cls.stage is not Stage.ENCODER:
            raise OptionError(
                f"encoder {self.encoder!r} acts at {cls.stage.value}: name a method that acts before the decoder only"
            )
        return cls(retention=1.0, positions=self.positions)
