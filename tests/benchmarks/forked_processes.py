"""Whether a forked process measures as a process that was started anew: the experiment behind `engine/processes.py`.

    python -m tests.benchmarks.forked_processes --processes 8

Each process times `pocket` at two retentions for some seconds, as one process of a sweep does. Two kinds of processes
take turns in random order: started anew, and forked from a server that has loaded the model. Printed are, for each
kind, the mean of the processes' speed-ups, their spread, and the seconds until a process has the model.
"""

import argparse
import random
import time
from math import exp, log
from statistics import mean, median, stdev

from trio_profile.engine.orders import Allowance, Event, Order
from trio_profile.engine.processes import Server
from trio_profile.kinds.grid import run as local
from trio_profile.records.schema import Round, Session, Study
from trio_profile.records.timing import timings_of

KINDS = ("started anew", "forked after loading")
RETENTIONS = (0.22, 0.66)


def measure(server: Server, study: Study, seconds: float, number: int, *, load: bool) -> tuple[list[float], float]:
    """Return the median speed-up of each cell in one process, and the seconds until the process had the model."""
    begin, ready, rounds = time.monotonic(), list[float](), list[Round]()
    order = Order(
        study=study,
        times=tuple(cell.id for cell in study.cells()),
        allowance=Allowance(left=seconds, whole=seconds, generating=seconds, processes=1),
        number=number,
    )

    def handle(_: int, event: Event) -> None:
        if isinstance(event, Session):
            ready.append(time.monotonic() - begin)
        elif isinstance(event, Round):
            rounds.append(event)

    local.measure([order], handle, server, load=load)
    timings = timings_of(rounds)
    return [
        median(pair.ratio("prefill_ms") or 0.0 for pair in timings[cell.id][0].pairs) for cell in study.cells()
    ], ready[0]


def main() -> None:
    """Measure in turn, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8, help="processes of each kind")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each process, after it has the model")
    options = parser.parse_args()
    study = Study(retentions=RETENTIONS)
    logs: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    ready: dict[str, list[float]] = {kind: [] for kind in KINDS}
    draw = random.Random(0)
    with Server() as shared:
        for number in range(options.processes):
            for kind in draw.sample(KINDS, len(KINDS)):
                begin = time.monotonic()
                if kind == KINDS[0]:
                    with Server() as own:
                        speedups, _ = measure(own, study, options.seconds, number, load=False)
                    ready[kind].append(time.monotonic() - begin - options.seconds)
                else:
                    speedups, seconds = measure(shared, study, options.seconds, number, load=True)
                    ready[kind] += [seconds] if logs[kind] else []  # the first one waits until the server has loaded
                logs[kind].append([log(speedup) for speedup in speedups])
    for kind in KINDS:
        cells = list(zip(*logs[kind], strict=True))
        told = ", ".join(
            f"{retention:.0%}: {exp(mean(cell)):.3f}× ± {stdev(cell) / len(cell) ** 0.5:.1%} (spread {stdev(cell):.1%})"
            for retention, cell in zip(RETENTIONS, cells, strict=True)
        )
        print(f"{kind:22} {told}; model after {median(ready[kind]):.1f} s")


if __name__ == "__main__":
    main()
