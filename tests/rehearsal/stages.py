"""Operators, waits and bytes of a stage on a pretended GPU.

`python -m tests.rehearsal.stages [MODEL]` prints a table. Its last two columns are what pruning adds to a prefill, by
stage: selecting, and removing the tokens. `trio_profile/data/selections.yaml` has them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

METHODS = ("trio", "trio-printed", "trio-released", "grid", "random", "fastv", "dart", "visionzip")


class Stage(NamedTuple):
    """The mean of the stages of one prefill.

    operators: those that compute. waits: of the host. megabytes: that the operators read and write.
    names: of the operators of all stages, in order, each with the span that it runs in.
    """

    stages: int
    operators: float
    waits: float
    megabytes: float
    names: Sequence[tuple[str, str]]


def stage(workload: Any, method: Any) -> Stage:
    """Count over the selections of one prefill."""
    from tests.rehearsal import cuda
    from trio_core.spans import listening

    spans: list[str] = []
    operators: list[tuple[str, str]] = []
    size = 0

    def listen(name: str, entering: bool) -> None:
        if name == "selection":
            nonlocal waits
            waits += -cuda.card().waits if entering else cuda.card().waits
        spans.append(name) if entering else spans.pop()

    def watch(name: str, moved: int) -> None:
        nonlocal size
        if "selection" in spans:
            operators.append((spans[-1], name))
            size += moved

    waits = 0
    with workload.pruned(method) as trace:
        workload.prefill()
        with listening(listen), cuda.watching(watch):
            workload.prefill()
    count = len(trace.stages)
    return Stage(count, len(operators) / count, waits / count, size / count / 1e6, operators)


def prefill(workload: Any, method: Any) -> tuple[int, int]:
    """Return the operators and the waits of one prefill. method: None for the dense model."""
    from tests.rehearsal import cuda

    operators: list[str] = []
    with workload.pruned(method):
        workload.prefill()
        waits = cuda.card().waits
        with cuda.watching(lambda name, _: operators.append(name)):
            workload.prefill()
    return len(operators), cuda.card().waits - waits


def main() -> None:
    """Print the table."""
    if "REHEARSAL_LIBRARY" not in os.environ:
        from tests.rehearsal import building

        with tempfile.TemporaryDirectory() as folder:
            environment = building.environment(building.compiled(Path(folder)))
            sys.exit(subprocess.run([sys.executable, "-m", __spec__.name, *sys.argv[1:]], env=environment).returncode)
    from tests.profile.studying import make
    from trio_core import methods
    from trio_profile.inputs.workload import build

    model = sys.argv[1] if len(sys.argv) > 1 else "pocket"
    workload = build(make(model=model, device="cuda", dtype="bfloat16", fidelity_inputs=0, new_tokens=2))
    print(
        f"{'method':<14}{'stages':>8}{'operators':>11}{'waits':>7}{'MB':>8}{'added':>7}{'waits':>7}   {model}, 33.3 %"
    )
    dense = prefill(workload, None)
    for name in METHODS:
        method = methods.find(name)(retention=0.333)
        found, pruned = stage(workload, method), prefill(workload, method)
        added = [(own - of_dense) / found.stages for own, of_dense in zip(pruned, dense, strict=True)]
        print(f"{name:<14}{found.stages:>8}{found.operators:>11.0f}{found.waits:>7.1f}{found.megabytes:>8.2f}", end="")
        print(f"{added[0]:>7.0f}{added[1]:>7.1f}")


if __name__ == "__main__":
    main()
