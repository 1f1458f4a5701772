"""What pruning did in the latest prefill."""

from dataclasses import dataclass, field

from torch import Tensor

from trio_core.errors import TrioError
from trio_core.rules.schedule import Schedule


@dataclass(frozen=True)
class StageTrace:
    """What one stage did, on the picture's own token numbering 0 … V0 − 1.

    layer: 1-based. tokens_before, tokens_after: visual tokens of the longest sample, in and out.
    kept[b]: [K] numbers that sample b kept, ascending. scores[b]: [V0] the method's scores, NaN where a token was gone
    already; None when the method does not score or nothing had to go.
    """

    layer: int
    tokens_before: int
    tokens_after: int
    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None


@dataclass
class Trace:
    """What pruning did in the latest prefill. `stages` fill in order; `schedules[b]` is what sample b was due."""

    stages: list[StageTrace] = field(default_factory=list)
    schedules: tuple[Schedule, ...] = ()

    @property
    def realised_retention(self) -> float:
        """Kept share of the visual tokens that were there, averaged over layers and samples."""
        if not self.schedules:
            raise TrioError("no prefill has run in this context yet: nothing was realised")
        layers = self.schedules[0].num_layers
        kept = sum(sum(schedule.tokens_by_layer) for schedule in self.schedules)
        return kept / (layers * sum(schedule.visual_tokens for schedule in self.schedules))
