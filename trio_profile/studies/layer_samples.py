"""What `layers` measures of one cell: rounds of prefills, and whole generations between them."""

from dataclasses import dataclass, field

from trio_profile.profilers.timeline import Timeline
from trio_profile.records.schema import Pair, Stopped
from trio_profile.stats.two_way import centre_of


@dataclass(frozen=True)
class Round:
    """Four prefills of one round.

    dense, pruned: the prefills with marks.
    dense_bare_ms, pruned_bare_ms: milliseconds of the bare prefills.
    """

    dense: Timeline
    pruned: Timeline
    dense_bare_ms: float
    pruned_bare_ms: float


@dataclass
class Samples:
    """What was measured of one cell so far.

    rounds: its prefills.
    pairs: its whole generations.
    stopped: why sampling ended.
    """

    rounds: list[Round] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    stopped: Stopped = "budget"

    def half_width(self) -> float:
        """Return the relative half width of the prefill's speed-up."""
        return centre_of([[one.dense_bare_ms / one.pruned_bare_ms for one in self.rounds]]).half_width()
