"""Why a ratio of FLOPs did not become a ratio of times: by part, what the claim promised and what it took.

Amdahl's law as a walk. The claim says that everything takes 1/r of its dense time. Each part took what it took; the
difference is that part's step, and the steps lead from the claimed ratio to the measured one with nothing left over.
"""

from collections.abc import Sequence

from trio_profile.records.schema import Record


class Part(Record):
    """A part of the prefill, dense and pruned, in milliseconds. macs_ratio: of a run of layers, pruned over dense."""

    name: str
    dense_ms: float
    pruned_ms: float
    macs_ratio: float | None = None


class Step(Record):
    """One step of the walk. added_ms: beyond the steps before it, all of the first. speedup: over dense, after it."""

    name: str
    added_ms: float
    speedup: float


def attribute(claimed_ratio: float, parts: Sequence[Part]) -> list[Step]:
    """From a claimed speed-up to the measured one, which is the last step's. parts: all of the prefill, side by side.

    Layers take two kinds of steps: one for all of them, whose work fell less than the claim says, and one for each run
    of them, whose time did not follow its work. Any other part takes one. Raises ValueError for no positive claim.
    """
    if not claimed_ratio > 0:
        raise ValueError(f"claimed ratio {claimed_ratio}: it must be positive")
    dense_ms = sum(part.dense_ms for part in parts)
    layers = [(part, part.dense_ms * part.macs_ratio) for part in parts if part.macs_ratio is not None]
    promised = sum(part.dense_ms for part, _ in layers) / claimed_ratio
    added = [("layers: work that the claim leaves out", sum(by_work for _, by_work in layers) - promised)]
    added += [(f"{part.name}: time that does not follow work", part.pruned_ms - by_work) for part, by_work in layers]
    added += [(part.name, part.pruned_ms - part.dense_ms / claimed_ratio) for part in parts if part.macs_ratio is None]
    taken = dense_ms / claimed_ratio
    steps = [Step(name="claimed", added_ms=taken, speedup=claimed_ratio)]
    for name, more in added:
        taken += more
        steps.append(Step(name=name, added_ms=more, speedup=dense_ms / taken))
    return steps
