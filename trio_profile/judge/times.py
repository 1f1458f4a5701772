"""Times and speed-ups of cells, from the rounds of a study: their centres, their intervals, and what they cost."""

from collections.abc import Mapping, Sequence
from math import pi

import numpy as np

from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Milliseconds, Ratio
from trio_profile.records.schema import Measurement, Pair, Stopped, Study
from trio_profile.records.timing import Timed
from trio_profile.stats.estimates import measured, median_of
from trio_profile.stats.intervals import Groups, machine_spread, median
from trio_profile.stats.two_way import Centre, centres, sum_of_parts

TIMES = {name: quantity.phase for name, quantity in QUANTITIES.items() if quantity.phase}
"""The times of a run, and whether they belong to a prefill or to a whole generation."""
SPEEDUPS = {name: quantity.speedup for name, quantity in QUANTITIES.items() if quantity.speedup}
"""The times that have a speed-up, with its name."""
MEASURED = tuple(name for name in SPEEDUPS if QUANTITIES[name].label)
"""The times with a break-even."""
LEAST_SESSIONS = 4
"""With fewer processes, nothing is said of the variance between them."""


def pairs_by_session(measurement: Measurement, time: str) -> list[tuple[Pair, ...]]:
    """Return the pairs of a cell that have a time, by session: prefills, or whole generations."""
    phase = "generations" if TIMES.get(time, "generation") == "generation" else "pairs"
    return [pairs for timing in measurement.timings if (pairs := getattr(timing, phase))]


def ratios_by_session(measurement: Measurement, time: str) -> Groups:
    """Return dense / pruned of each pair, by session. Empty if it was not measured in every pair.

    time: `prefill_ms`, `cpu_ms`, or `rest_ms` (a generation without its prefill).
    """
    groups = [[_ratio(pair, time) for pair in pairs] for pairs in pairs_by_session(measurement, time)]
    known = [[value for value in group if value is not None] for group in groups]
    return known if known == groups else []


def _ratio(pair: Pair, time: str) -> float | None:
    if time != "rest_ms":
        return pair.ratio(time)
    dense, pruned = _rest_ms(pair.dense), _rest_ms(pair.pruned)
    return dense / pruned if dense and pruned else None


def _rest_ms(run: Timed) -> float | None:
    """Return the milliseconds of a generation without its prefill; None if it is not longer."""
    rest = (run.total_ms or 0.0) - run.prefill_ms
    return rest if rest > 0 else None


def speedup_centres(measurements: Sequence[Measurement], time: str, machine: float) -> dict[str, Centre]:
    """Return the centre of each cell's speed-up, by the cell's id. Cells without this time are left out.

    Cells of the same processes are pooled, because they were measured in the same rounds.

    time: as in `ratios_by_session`, or `total_ms`, which is put together from the prefill and the rest of a generation.
    machine: the spread of the machine's state.
    """
    if time == "total_ms":
        return _total_centres(measurements, machine)
    alike: dict[tuple[str, ...], dict[str, Groups]] = {}
    for measurement in measurements:
        if groups := ratios_by_session(measurement, time):
            phase = "generations" if time == "rest_ms" else "pairs"
            sessions = tuple(timing.session for timing in measurement.timings if getattr(timing, phase))
            alike.setdefault(sessions, {})[measurement.cell.id] = groups
    by_cell: dict[str, Centre] = {}
    for cells in alike.values():
        by_cell |= dict(zip(cells, centres(list(cells.values()), machine), strict=True))
    return by_cell


def _total_centres(measurements: Sequence[Measurement], machine: float) -> dict[str, Centre]:
    """Return the centre of each cell's speed-up of a whole generation.

    T_dense / T_pruned = 1 / (s / r + (1 − s) / q), with the prefill's share s of a dense generation, the prefill's
    speed-up r, and that of the rest q. The prefill is measured in many more rounds than the rest.
    """
    prefills, rests = (speedup_centres(measurements, time, machine) for time in ("prefill_ms", "rest_ms"))
    by_cell: dict[str, Centre] = {}
    for measurement in measurements:
        name = measurement.cell.id
        if name in prefills and name in rests:
            prefill, rest = prefills[name].inverse(), rests[name].inverse()
            share = _prefill_share(measurement)
            parts = share * prefill.value, (1 - share) * rest.value
            total = sum(parts)
            by_cell[name] = sum_of_parts([(parts[0] / total, prefill), (parts[1] / total, rest)], total).inverse()
    return by_cell


def _prefill_share(measurement: Measurement) -> float:
    """Return the share of the prefill in a dense generation."""
    pairs = [pair for timing in measurement.timings for pair in timing.generations]
    return median([pair.dense.prefill_ms / pair.dense.total_ms for pair in pairs if pair.dense.total_ms])


def widest(contents: Contents) -> float:
    """Return the largest relative half width of a prefill speed-up; infinity if none is known.

    Half of that of a whole generation counts too: it is measured less, and a conclusion needs it.
    """
    return _widest(contents.measurements, contents.study)


def _widest(measurements: Sequence[Measurement], study: Study) -> float:
    times = {"prefill_ms": 1.0, "total_ms": 0.5}
    machine = machine_spread(study.device)
    widths = [
        weight * centre.half_width()
        for time, weight in times.items()
        for centre in speedup_centres(measurements, time, machine).values()
    ]
    return max(widths, default=float("inf"))


def why_stopped(measurements: Sequence[Measurement], study: Study) -> Stopped:
    """Return why timing ended: all intervals are as narrow as asked, or the time was spent."""
    return "converged" if _widest(measurements, study) <= study.precision else "budget"


def spent_seconds(contents: Contents) -> float:
    """Return the seconds that all processes have spent on timing so far, with loading and warming up."""
    timing = {measured.session for measured in contents.rounds}
    loading = sum(session.load_seconds for session in contents.sessions if session.id in timing)
    return loading + sum(measured.seconds for measured in contents.rounds)


def seconds_again(contents: Contents, questions: int | None = None) -> float:
    """Return how long the study takes if it is measured again: its rounds and its questions.

    questions: how many questions each cell answers; None: as many as before. They count only if whole generations were
        timed, which tell how long an answer takes.
    """
    further = contents.asking_seconds if questions is None else 0.0
    if questions is None:
        questions = contents.question_counts[0] if contents.question_counts else 0
    times: dict[str, list[float]] = {}
    for timed in contents.rounds:
        for run in timed.runs:
            if run.total_ms is not None:
                times.setdefault(run.cell, []).append(run.total_ms)
    answer = sum(map(median, times.values())) / 1e3
    return sum(timed.seconds for timed in contents.rounds) + further + questions * answer


def round_over_process(contents: Contents) -> float | None:
    """Return the variance of a round / the variance of a process, over all cells; None if it is not known yet."""
    within: list[float] = []
    between: list[float] = []
    for measurement in contents.measurements:
        groups = [np.log(group) for group in ratios_by_session(measurement, "prefill_ms") if len(group) > 1]
        if len(groups) < LEAST_SESSIONS:
            continue
        within.append(float(np.mean([group.var(ddof=1) for group in groups])))
        # A median of n rounds has π / 2 times the variance of their mean.
        noise = within[-1] * pi / 2 * float(np.mean([1 / len(group) for group in groups]))
        between.append(float(np.var([np.median(group) for group in groups], ddof=1)) - noise)
    if not within:
        return None
    round_variance = float(np.mean(within))
    return float(np.clip(round_variance / max(float(np.mean(between)), 1e-12), 2.0, 60.0)) if round_variance else None


def summarise_times(
    measurement: Measurement, speedups: Mapping[str, Mapping[str, Centre]], stopped: Stopped, study: Study
) -> dict[str, Milliseconds | Ratio]:
    """Return the median of each time and speed-up of one cell that was measured in all its pairs.

    speedups: the centres of all cells, by the name of the time.
    """
    machine = machine_spread(study.device)
    summary: dict[str, Milliseconds | Ratio] = {}
    for time in TIMES:
        for side in ("", "dense_"):
            groups = [
                [_milliseconds(pair.dense if side else pair.pruned, time, study.new_tokens) for pair in pairs]
                for pairs in pairs_by_session(measurement, time)
            ]
            if groups and all(value is not None for group in groups for value in group):
                known = [[value for value in group if value is not None] for group in groups]
                summary[f"{side}{time}"] = median_of(Milliseconds, known, stopped, machine)
    for time, name in SPEEDUPS.items():
        if (centre := speedups[time].get(measurement.cell.id)) is not None:
            summary[name] = measured(Ratio, centre, stopped)
    return summary


def _milliseconds(run: Timed, time: str, new_tokens: int) -> float | None:
    """Return one time of a run; None if it was not measured."""
    if time != "tpot_ms":
        return getattr(run, time)
    if run.total_ms is None or run.ttft_ms is None or new_tokens < 2:
        return None
    return (run.total_ms - run.ttft_ms) / (new_tokens - 1)
