"""The base of methods of two parts: one method acts before the decoder, another one inside it."""

from abc import abstractmethod
from typing import ClassVar

from torch import equal

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Selection, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, Schedule
from trio_core.tensors import MaskBS


class TwoParts(Method):
    """A method of two parts: each stage is the part's that acts there.

    A subclass says which methods the parts are. Its own `retention`, `layers` and `budgets` decide the schedule.
    """

    name: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.BOTH

    encoder_part: Method
    """The method that acts before the decoder, with its options."""
    decoder_part: Method
    """The method that acts inside the decoder, with its options."""

    @abstractmethod
    def parts(self) -> tuple[Method, Method]:
        """Make both parts: the one before the decoder, and the one inside it. Called once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        encoder, decoder = self.parts()  # a part refuses an option out of range
        for part in (encoder, decoder):
            if part.needs_widths:
                raise OptionError(
                    f"schedule_rule 'paying': {self.name} begins in the encoder, whose stage cannot be left out; use "
                    f"{part.name} alone, or schedule_rule 'printed'"
                )
            if part.prunes_text:
                raise OptionError(
                    f"tokens 'all': {self.name} begins in the encoder, which has no text; use {part.name} alone"
                )
        # What a part needs may depend on the options, so it is a fact about the object.
        vars(self).update(encoder_part=encoder, decoder_part=decoder, needs=encoder.needs | decoder.needs)

    @property
    def needs_layer_parts(self) -> bool:
        """Whether one of the parts calls the modules of a layer one by one."""
        return self.encoder_part.needs_layer_parts or self.decoder_part.needs_layer_parts

    def candidates(self, visual: MaskBS, valid: MaskBS) -> MaskBS:
        """[B, S], True at the visual tokens.

        visual: [B, S], True at visual tokens.
        valid: [B, S], False at padding.

        Raises OptionError for a part that would prune other tokens too.
        """
        for part in (self.encoder_part, self.decoder_part):
            candidates = part.candidates(visual, valid)
            if candidates is not visual and not equal(candidates, visual):
                raise OptionError(f"method {part.name!r} of {self.name!r} prunes other tokens too: use it alone")
        return visual

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder, and after the layers of the method inside it."""
        return (0, *self.decoder_part.default_layers(num_layers))

    def select(self, view: View) -> Selection:
        """The selection of the part that acts at this stage."""
        return self._part_at(view.layer).select(view)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the selection of the part that acts at this stage."""
        return self._part_at(layer).overhead(shape, layer, sizes)

    def selection_macs(self, shape: LayerShape, schedule: Schedule, text_tokens: int, text_after: int) -> int:
        """MACs of all selections of both parts for one sample. The second part's picture is what the first one left.

        The arguments are those of `Method.selection_macs`.
        """
        parts = zip((self.encoder_part, self.decoder_part), split(schedule), strict=True)
        return sum(part.selection_macs(shape, own, text_tokens, text_after) for part, own in parts)

    def _part_at(self, layer: int) -> Method:
        return self.encoder_part if layer == 0 else self.decoder_part


def split(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """The schedule of each part. The second one begins with the tokens that the first one leaves.

    schedule: one that begins at layer 0 and has further stages.
    """
    left, num_layers = schedule.budgets[0], schedule.num_layers
    first = Schedule((0,), (left,), schedule.visual_tokens, num_layers)
    return first, Schedule(schedule.layers[1:], schedule.budgets[1:], left, num_layers)
