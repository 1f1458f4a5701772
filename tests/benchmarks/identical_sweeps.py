"""Compare sweeps that are the same with each other: do intervals cover another run, and is the gate right?

    python -m tests.benchmarks.identical_sweeps --sweeps 20 --seconds 5
    python -m tests.benchmarks.identical_sweeps --sweeps 20 --seconds 5 --threads 1 --slower 0.05

Each two sweeps are a pair, and `trio-profile gate` judges the second against the first. The first command changes
nothing, so each `regression` or `improved` is a false verdict. The second slows the second sweep of each pair by 5 %
of its prefill, so each pair should have a `regression`. Studies are kept in --out, and finished ones are not measured
again. The machine must do nothing else meanwhile.
"""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log, sqrt
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.program import SLOWED_MS, Call, call, call_once, contains, half_width, machine, parser, write
from trio_profile import units
from trio_profile.analysis.sweep import from_store
from trio_profile.analysis.times import ratios_by_session
from trio_profile.gate.evidence import Subject, compare, of_study
from trio_profile.records.store import Store

RETENTION = "0.22"
SPEEDUPS = ("prefill_speedup", "total_speedup", "cpu_speedup")
CAUGHT_BY = ("cpu_over_dense", "prefill_over_dense")
"""The quantities that must find a planted slow-down of the prefill."""
OUTCOMES = ("pass", "inconclusive", "improved", "regression")


def main() -> None:
    """Measure, judge, print the tables, and write `result.json` in --out."""
    options = _options()
    start, before = time.monotonic(), machine()
    sweeps = [sweep for number in range(1, options.sweeps, 2) for sweep in _measure_pair(options, number)]
    gates = [_gate(options, number) for number in range(1, options.sweeps, 2)]
    same = range(1, options.sweeps + 1, 2 if options.slower else 1)
    cells = [_cell(_directory(options, number)) for number in range(1, options.sweeps + 1)]
    result = {
        "machine": before | {"environment": sweeps[0].document["environment"]},
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "seconds": time.monotonic() - start,
        **summary(cells, [gate.document["verdicts"] for gate in gates], options.slower),
        "alike": alike([_medians(options, number) for number in same]),
        "gated": gated([_subject(options, number) for number in same]),
        "sweeps": [
            {
                "command": sweep.command,
                "seconds": sweep.seconds,
                "cell": cell,
                "doubts": sweep.document["doubts"],
            }
            for sweep, cell in zip(sweeps, cells, strict=True)
        ],
        "gates": [{"command": gate.command, "verdicts": gate.document["verdicts"]} for gate in gates],
    }
    write(options.out / "result.json", result)
    _print(result)


def summary(
    cells: Sequence[Mapping[str, Any]], pairs: Sequence[Sequence[Mapping[str, Any]]], slower: float
) -> dict[str, Any]:
    """Return what follows from the sweeps and the verdicts.

    cells: the one cell of each sweep, in the order of measurement.
    pairs: the verdicts of each pair.
    slower: the share by which the second sweep of each pair was slowed.
    """
    same = cells[::2] if slower else cells
    return {
        "verdicts": count_verdicts(pairs),
        "speedups": {name: cover([cell[name] for cell in same]) for name in SPEEDUPS},
        "caught": {name: caught(pairs, name) for name in CAUGHT_BY} if slower else None,
    }


def count_verdicts(pairs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """Return how often each verdict was given, by quantity. All exact quantities are counted together, as `exact`."""
    found: dict[str, Counter[str]] = {}
    for verdict in (verdict for verdicts in pairs for verdict in verdicts):
        quantity = "exact" if verdict["ci95"] is None else verdict["quantity"]
        found.setdefault(quantity, Counter())[verdict["verdict"]] += 1
    return {quantity: dict(counted) for quantity, counted in found.items()}


def cover(quantities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return whether the intervals of one quantity, one for each sweep, cover the other sweeps.

    pooled: the median of the sweeps' values.
    containing: how many of the intervals contain it.
    spread: the largest value / the smallest one.
    half_width: the median of the intervals' relative half widths.
    """
    values = [quantity["median"] for quantity in quantities]
    pooled = median(values)
    return {
        "pooled": pooled,
        "sweeps": len(values),
        "containing": sum(contains(quantity, pooled) for quantity in quantities),
        "spread": max(values) / min(values),
        "half_width": median(half_width(quantity) for quantity in quantities),
    }


def alike(medians: Sequence[Sequence[float]]) -> float | None:
    """Return how much the sweeps differ / how much they should by the spread between their processes.

    medians: of each sweep the logarithms of its processes' median speed-ups.
    Returns None if a sweep has one process only.
    """
    if any(len(one) < 2 for one in medians):
        return None
    expected = mean(stdev(one) ** 2 / len(one) for one in medians)
    return stdev(map(mean, medians)) / sqrt(expected)


def caught(pairs: Sequence[Sequence[Mapping[str, Any]]], quantity: str) -> int:
    """Return in how many pairs the quantity's verdict was `regression`."""
    return sum(
        any(verdict["quantity"] == quantity and verdict["verdict"] == "regression" for verdict in verdicts)
        for verdicts in pairs
    )


def gated(sweeps: Sequence[Subject]) -> dict[str, tuple[int, int]]:
    """Return how many of the gate's intervals contain 1, of how many, when each two alike sweeps are compared."""
    found: dict[str, list[bool]] = {}
    for base, new in combinations(sweeps, 2):
        for verdict in compare(base, new):
            if verdict.ci95 is not None:
                low, high = verdict.ci95
                found.setdefault(verdict.quantity, []).append(low <= 1 <= high)
    return {quantity: (sum(holding), len(holding)) for quantity, holding in found.items()}


def milliseconds_of(share: float, cell: Mapping[str, Any], threads: int) -> float:
    """Return the CPU time that one thread must burn to slow a cell's pruned prefill by a share.

    With one thread it is that share of the CPU time. With several, CPU time counts each thread, so wall time is used.
    """
    return share * cell["cpu_ms" if threads == 1 else "prefill_ms"]["median"]


def _subject(options: argparse.Namespace, number: int) -> Subject:
    directory = _directory(options, number)
    return of_study(Store(directory).read(), directory.name)


def _medians(options: argparse.Namespace, number: int) -> list[float]:
    """Return the logarithm of each process's median speed-up of the prefill."""
    [cell] = Store(_directory(options, number)).read().measurements
    return [log(median(ratios)) for ratios in ratios_by_session(cell, "prefill_ms")]


def _measure_pair(options: argparse.Namespace, number: int) -> tuple[Call, Call]:
    """Measure the sweeps `number` and `number` + 1. With --slower the second one is slowed."""
    first = _sweep(options, number, {})
    if not options.slower:
        return first, _sweep(options, number + 1, {})
    milliseconds = milliseconds_of(options.slower, _cell(_directory(options, number)), options.threads)
    return first, _sweep(options, number + 1, {SLOWED_MS: units.plain(milliseconds)})


def _sweep(options: argparse.Namespace, number: int, variables: Mapping[str, str]) -> Call:
    method = "tests.benchmarks.slowed:Slowed" if options.slower else "trio"
    arguments = ["sweep", "--device", "cpu", "--model", "pocket", "--method", method, "--retention", RETENTION]
    arguments += ["--asked", "10", "--seconds", str(options.seconds)]
    if options.processes is not None:
        arguments += ["--processes", str(options.processes)]
    return call_once(_directory(options, number), arguments, {"OMP_NUM_THREADS": str(options.threads), **variables})


def _gate(options: argparse.Namespace, number: int) -> Call:
    """Judge the sweep `number` + 1 against the sweep `number`."""
    sides = [str(_directory(options, side)) for side in (number, number + 1)]
    # Exit code 1 is a regression.
    return call(["gate", *sides, "--max-ratio", str(options.max_ratio)], {}, accepted=(0, 1))


def _directory(options: argparse.Namespace, number: int) -> Path:
    return options.out / f"sweep-{number:03d}"


def _cell(directory: Path) -> dict[str, Any]:
    """Return the one cell of a sweep, with the intervals of today's code. Raises SystemExit if it was not measured."""
    [cell] = from_store(Store(directory).read()).model_dump(mode="json")["cells"]
    if cell["status"] != "done":
        raise SystemExit(f"{directory}: {cell['reason']}")
    return cell


def _print(result: Mapping[str, Any]) -> None:
    options, sweeps, console = result["options"], result["sweeps"], Console()
    verdicts = Table("quantity", *OUTCOMES, title=f"Verdicts of {units.number_of(len(result['gates']), 'pair')}")
    for quantity, counted in result["verdicts"].items():
        verdicts.add_row(quantity, *(str(counted.get(outcome, 0)) for outcome in OUTCOMES))
    covered = Table("quantity", "pooled", "intervals that contain it", "largest / smallest", "half width")
    covered.title = "Sweeps that are the same"
    for name, found in result["speedups"].items():
        covered.add_row(
            name,
            units.times(found["pooled"]),
            f"{found['containing']} of {found['sweeps']}",
            units.threshold(found["spread"]),
            units.percent(found["half_width"]),
        )
    console.print(verdicts, covered)
    for quantity, (holding, of) in result["gated"].items():
        console.print(f"Each two identical sweeps compared: {holding} of {of} intervals of {quantity} contain 1.")
    for quantity, number in (result["caught"] or {}).items():
        ratios = [
            verdict["ratio"]
            for gate in result["gates"]
            for verdict in gate["verdicts"]
            if verdict["quantity"] == quantity
        ]
        measured = f"; the median ratio is {units.factor(median(ratios))}" if ratios else "; it was not judged"
        planted = f"{units.percent(options['slower'])} slower"
        console.print(
            f"{planted}: caught in {number} of {len(result['gates'])} pairs by {quantity}{measured}", soft_wrap=True
        )
    if result["alike"] is not None:
        console.print(
            f"The sweeps' prefill speed-ups differ {units.factor(result['alike'])} times as much as they should by the "
            "spread between their processes.",
            soft_wrap=True,
        )
    each = median(sweep["seconds"] for sweep in sweeps)
    console.print(
        f"{units.number_of(len(sweeps), 'sweep')}, {units.duration(each)} each. "
        f"This run took {units.duration(result['seconds'])}. All figures: {options['out']}/result.json",
        soft_wrap=True,
    )


def _options() -> argparse.Namespace:
    script = parser("identical_sweeps", __doc__)
    script.add_argument("--sweeps", type=int, default=20, help="how many sweeps, an even number (default: 20)")
    script.add_argument("--slower", type=float, default=0.0, help="share by which each second sweep is slowed")
    script.add_argument("--max-ratio", type=float, default=1.03, help="the bound of the gate (default: 1.03)")
    options = script.parse_args()
    if options.sweeps < 2 or options.sweeps % 2:
        script.error(f"--sweeps {options.sweeps}: choose an even number, because two sweeps are a pair")
    return options


if __name__ == "__main__":
    main()
