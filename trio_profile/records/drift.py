"""How the speed of the machine drifted while it measured.

Neighbouring runs find the machine in nearly the same state. On shared cores a state lasts for seconds, as long as a
round. So the few dense runs of a round say too little of the moment at which a cell ran. All runs together say more:

    log time of a run = its cell + drift + noise,

where the drift is a random walk from run to run of a process. It is smoothed as by Kalman (1960), all runs at once.
Single slow runs and jumps count for less (Huber 1964).
"""

from collections.abc import Sequence

STEP = 3.0
"""The variance of a step of the drift over that of the noise. `python -m tests.benchmarks.drift DIR …` prints the
intervals that follow from 0.1 to 10. It was chosen after nine sweeps of `pocket` on two shared cores: their intervals
were between 17 % wider and 50 % narrower than without any drift."""
_HUBER = 3.0
"""The limit beyond which a run counts for less, in standard deviations of what the drift leaves. The drift follows the
runs, so it leaves less than the noise. With 1.5 ordinary steps were limited too, and 95 % intervals held in 85 % of the
studies on machines that drift strongly (tests/benchmarks/test_coverage.py)."""
_ITERATIONS = 8
_SPREAD_OF_MEDIAN_DEVIATION = 1.4826


def drift_of(cells: Sequence[Sequence[str]], times: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how long the dense model would take at the moment of each run of each process, as the other runs tell.

    Only its ratios between moments mean anything: a process that is slow for the dense model alone does not move it.

    cells: of the runs of each process, in the order of measurement; empty for the dense model.
    times: of the runs, more than 0.
    """
    import numpy as np  # a table of records needs neither
    from scipy.linalg import solveh_banded

    ends = np.cumsum([len(of_process) for of_process in times])
    names = [cell for of_process in cells for cell in of_process]
    logs = np.log([time for of_process in times for time in of_process])
    design = np.array([[cell == name for name in sorted({*names} - {""})] for cell in names], dtype=float)
    within = np.ones(len(names) - 1)
    within[[end - 1 for end in ends if 0 < end < len(names)]] = 0  # no step from one process to the next
    noise, walk = np.ones(len(names)), within / STEP
    drift = rest = logs
    bands = np.zeros((2, len(names)))  # the normal equations of the drift: above the diagonal, and the diagonal
    for _ in range(_ITERATIONS):
        bands[0, 1:] = -walk
        bands[1] = noise + np.pad(walk, (1, 0)) + np.pad(walk, (0, 1))
        weighted = noise[:, None] * np.column_stack([design, logs])
        smooth = solveh_banded(bands, weighted)
        equations = design.T @ (weighted - noise[:, None] * smooth)  # those of the cells, without the drift
        effects = np.linalg.lstsq(equations[:, :-1], equations[:, -1], rcond=None)[0]
        drift = smooth[:, -1] - smooth[:, :-1] @ effects
        rest = logs - drift - design @ effects
        limit = _HUBER * _SPREAD_OF_MEDIAN_DEVIATION * float(np.median(np.abs(rest)))
        if limit == 0:
            break
        noise = limit / np.maximum(np.abs(rest), limit)
        walk = within * limit / np.maximum(np.abs(np.diff(drift)) / STEP**0.5, limit) / STEP
    parts = np.split(np.arange(len(names)), ends[:-1])
    inverses = [np.diagonal(solveh_banded(bands[:, part], np.eye(len(part)))) for part in parts if len(part)]
    own = noise * np.concatenate(inverses)  # the share of a run in the drift at its place, which is taken out
    others = np.exp(drift - own / (1 - own) * rest)
    return [others[part].tolist() for part in parts]
