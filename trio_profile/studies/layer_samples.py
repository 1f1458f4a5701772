"""What `layers` measures of one cell: rounds of prefills, and whole generations between them."""

from dataclasses import dataclass, field

from trio_profile.profilers.timeline import Timeline
from trio_profile.records.schema import Pair, Stopped
from trio_profile.stats.stopping import decide


@dataclass(frozen=True)
class Round:
    """Four prefills, measured in a balanced order.

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

    rounds: its prefills. spent_s: their seconds, with the cell's share of the dense ones.
    pairs: its whole generations. generating_s: their seconds, as above.
    stopped: why sampling ended; None while it goes on.
    """

    rounds: list[Round] = field(default_factory=list)
    spent_s: float = 0.0
    pairs: list[Pair] = field(default_factory=list)
    generating_s: float = 0.0
    stopped: Stopped | None = None

    def add_round(self, found: Round, cells: int) -> None:
        """Add a round. cells: how many cells share its dense prefills."""
        self.rounds.append(found)
        dense_ms = (found.dense.whole_ms + found.dense_bare_ms) / cells
        self.spent_s += (found.pruned.whole_ms + found.pruned_bare_ms + dense_ms) / 1000

    def add_pair(self, found: Pair, cells: int) -> None:
        """Add a pair of generations. cells: how many cells share its dense one."""
        self.pairs.append(found)
        self.generating_s += (found.total_ms + found.dense_total_ms / cells) / 1000

    def decide(self, precision: float, seconds: float) -> None:
        """Stop if the interval of the prefill's speed-up is as narrow as asked, or if the time is up."""
        ratios = [one.dense_bare_ms / one.pruned_bare_ms for one in self.rounds]
        self.stopped = decide(ratios, self.spent_s, precision=precision, seconds=seconds)
