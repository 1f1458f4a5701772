"""Attribution: the steps from a claimed speed-up to the measured speed-up, one step for each part of the prefill.

This is Amdahl's law. A claimed speed-up r says that each part takes 1/r of its dense time. The step of a part is its
measured time minus that claimed time. Together the steps explain the whole difference; no residual is left.
"""

from collections.abc import Sequence

from trio_profile.records.schema import Record


class Part(Record):
    """The times of one part of the prefill.

    name: name of the part.
    dense_ms, pruned_ms: milliseconds in the dense and in the pruned prefill.
    macs_ratio: for layers, pruned MACs / dense MACs; None for any other part.
    """

    name: str
    dense_ms: float
    pruned_ms: float
    macs_ratio: float | None = None


class Step(Record):
    """One step from the claimed to the measured speed-up.

    name: name of the step.
    added_ms: milliseconds that the step adds. For the first step: the claimed time.
    speedup: the speed-up after this step.
    """

    name: str
    added_ms: float
    speedup: float


def attribute(claimed_ratio: float, parts: Sequence[Part]) -> list[Step]:
    """Return the steps from a claimed speed-up to the measured speed-up, which is that of the last step.

    A group of layers takes two steps: one for work that the claim leaves out, and one for time that does not follow the
    work. The first of these steps is common to all layers. Any other part takes one step.

    claimed_ratio: the claimed speed-up.
    parts: all parts of the prefill. They do not overlap.
    Raises ValueError if the claimed speed-up is not positive.
    """
    if not claimed_ratio > 0:
        raise ValueError(f"claimed ratio {claimed_ratio}: it must be positive")
    dense_ms = sum(part.dense_ms for part in parts)
    layers = [(part, part.dense_ms * part.macs_ratio) for part in parts if part.macs_ratio is not None]
    claimed_ms = sum(part.dense_ms for part, _ in layers) / claimed_ratio
    added = [("layers: work that the claim leaves out", sum(by_work_ms for _, by_work_ms in layers) - claimed_ms)]
    added += [
        (f"{part.name}: time that does not follow work", part.pruned_ms - by_work_ms) for part, by_work_ms in layers
    ]
    added += [(part.name, part.pruned_ms - part.dense_ms / claimed_ratio) for part in parts if part.macs_ratio is None]
    total_ms = dense_ms / claimed_ratio
    steps = [Step(name="claimed", added_ms=total_ms, speedup=claimed_ratio)]
    for name, added_ms in added:
        total_ms += added_ms
        steps.append(Step(name=name, added_ms=added_ms, speedup=dense_ms / total_ms))
    return steps
