"""The record of the latest prefill: Trace and StageTrace."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from trio_core.errors import TrioError
from trio_core.rules.schedule import Schedule

PerSample = Callable[[], tuple[Tensor, ...]]
"""It returns a tensor for each sample. It runs when somebody reads the trace."""


@dataclass(frozen=True)
class StageTrace:
    """The record of one stage. Visual tokens have the picture's own numbers, 0 … V0 − 1.

    layer: the stage acts after this decoder layer, 1-based; 0 is before the first.
    tokens_before, tokens_after: visual tokens of the longest sample, before and after the stage.
    kept[b]: [K], the numbers that sample b kept, ascending.
    rating: returns `scores`; None where the method does not score, or where nothing was to be dropped.
    merges: whether other tokens were merged into the kept ones.
    destinations: returns `merged_into`; None where that is not known.
    """

    layer: int
    tokens_before: int
    tokens_after: int
    kept: tuple[Tensor, ...]
    rating: PerSample | None = field(default=None, repr=False, compare=False)
    merges: bool = False
    destinations: PerSample | None = field(default=None, repr=False, compare=False)

    @property
    def scores(self) -> tuple[Tensor, ...] | None:
        """For each sample [V0], the method's scores, NaN for a token that an earlier stage dropped.

        They are computed at each read. None where the method does not score, or where nothing was to be dropped.
        """
        return None if self.rating is None else self.rating()

    @property
    def merged_into(self) -> tuple[Tensor, ...] | None:
        """For each sample [V0], the number of the kept token that each token went into at this stage.

        It is a kept token's own number, and −1 for a token that went into none. None where nothing merged, or where the
        method cannot say: its tokens went into several, or it does not tell.
        """
        return None if self.destinations is None else self.destinations()


@dataclass
class Trace:
    """The record of the latest prefill. Each prefill refills it, stage by stage, as the stages run.

    stages: the stages that ran.
    visual_tokens[b]: V0, the visual tokens that entered the decoder for sample b; empty for a prompt without pictures.
    num_layers: L, the decoder's depth; 0 before the first prefill.
    left: returns `places`; None before the first prefill.
    notes: what differs from what was asked, such as a prompt without pictures, which runs dense, or a method that had
        fewer supervised rows than k_pos.
    """

    stages: list[StageTrace] = field(default_factory=list)
    visual_tokens: tuple[int, ...] = ()
    num_layers: int = 0
    notes: tuple[str, ...] = ()
    left: PerSample | None = field(default=None, repr=False, compare=False)

    def restart(self, visual_tokens: tuple[int, ...], num_layers: int, notes: tuple[str, ...], left: PerSample) -> None:
        """Forget the last prefill: a new one begins."""
        self.stages.clear()
        self.visual_tokens, self.num_layers, self.notes, self.left = visual_tokens, num_layers, notes, left

    def add_notes(self, *notes: str) -> None:
        """Add notes, each once."""
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))

    @property
    def places(self) -> tuple[Tensor, ...]:
        """For each sample [T], the places in the prompt of the tokens that reached the last layer, ascending.

        Text and kept visual tokens are among them. The model's logits at all other places are NaN.
        """
        return () if self.left is None else self.left()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The stages that ran and what they kept, as one schedule for each sample."""
        if not self.stages:
            return ()
        layers = tuple(stage.layer for stage in self.stages)
        return tuple(
            Schedule(layers, tuple(len(stage.kept[b]) for stage in self.stages), tokens, self.num_layers)
            for b, tokens in enumerate(self.visual_tokens)
        )

    @property
    def realised_retention(self) -> float:
        """The kept share of the visual tokens, averaged over layers and samples, from the stages that ran.

        After a forward that failed it covers only the stages before the failure. It is 1.0
        for a prompt without pictures: nothing was dropped. Raises TrioError before the first prefill.
        """
        if not self.num_layers:
            raise TrioError("no prefill has run in this context yet: nothing was realised")
        if not self.stages:
            return 1.0
        kept = sum(sum(schedule.tokens_by_layer) for schedule in self.schedules)
        return kept / (self.num_layers * sum(self.visual_tokens))
