"""The quantities of one cell and of the dense model, derived from their records."""

from collections.abc import Mapping, Sequence
from typing import Any

from trio_profile.judge.accuracy import accuracy, by_kind, by_question, correct_shares, difference, mean_share
from trio_profile.judge.times import SPEEDUPS, speedup_centres, summarise_times, why_stopped
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.quantities.summary import CellSummary, DenseSummary, Gamma
from trio_profile.records.estimate import Milliseconds, Nats, Ratio, Share
from trio_profile.records.schema import Dense, Fidelity, Measurement, Study
from trio_profile.stats.intervals import machine_spread, mean_interval

_OF_A_CELL = ("remark", "notes", "retention", "layers", "budgets", "fastv_overhead_macs")
"""Fields that the summary of a cell copies from its record."""


def summarise_cells(measurements: Sequence[Measurement], study: Study, dense: Dense | None) -> list[CellSummary]:
    """Return the quantities of all cells of a study. A cell that failed or was refused has only its reason."""
    done = [measurement for measurement in measurements if measurement.status == "done"]
    machine, stopped = machine_spread(study.device), why_stopped(done, study)
    speedups = {time: speedup_centres(done, time, machine) for time in SPEEDUPS}
    return [
        _summarise(cell, study, dense, summarise_times(cell, speedups, stopped, study) if cell.status == "done" else {})
        for cell in measurements
    ]


def _summarise(
    measurement: Measurement, study: Study, dense: Dense | None, times: Mapping[str, Milliseconds | Ratio]
) -> CellSummary:
    """Return the quantities of one cell. times: its times and speed-ups."""
    summary = CellSummary(
        method=measurement.cell.method,
        status=measurement.status,
        reason=measurement.reason,
        nominal_retention=measurement.cell.retention,
    )
    counted = measurement.counted
    if measurement.status != "done" or counted is None:
        return summary
    return summary.model_copy(
        update={
            **times,
            **_summarise_fidelity(measurement.fidelity, () if dense is None else dense.pictures),
            **_summarise_answers(measurement, dense),
            **{name: getattr(measurement, name) for name in _OF_A_CELL},
            **_summarise_quantities(measurement),
            "selection_macs": counted.selection_flops // 2,
            "gamma": Gamma(assumed=study.gamma, counted=measurement.gamma_counted),
        }
    )


def _summarise_quantities(record: Measurement | Dense) -> dict[str, Any]:
    """Return the quantities that follow from one record alone."""
    return {name: quantity.summarise(record) for name, quantity in QUANTITIES.items() if quantity.summarise}


def _summarise_fidelity(fidelity: Fidelity | None, pictures: Sequence[int]) -> dict[str, Nats | Share]:
    """Return how close the output is to the dense model's output.

    pictures: number of the picture of each question; empty if each has a picture of its own.
    """
    if fidelity is None:
        return {}
    questions = len(fidelity.kl_nats) // fidelity.draws
    divergences = by_question(fidelity.kl_nats, questions)
    interval = mean_interval(divergences, clusters=pictures)
    closeness: dict[str, Nats | Share] = {
        "kl_nats_mean": Nats(value=float(divergences.mean()), ci95=interval, samples=questions, stopped="budget"),
        "top1_agreement": mean_share(by_question(fidelity.top1, questions), Share, pictures),
    }
    if fidelity.same:
        closeness["answer_agreement"] = mean_share(by_question(fidelity.same, questions), Share, pictures)
    return closeness


def _summarise_answers(measurement: Measurement, dense: Dense | None) -> dict[str, Any]:
    """Return the accuracy and its difference to the dense model; empty if no answers are known."""
    shares = correct_shares(measurement, dense)
    if shares is None or dense is None:
        return {}
    return {
        "accuracy": accuracy(shares, dense.pictures),
        "accuracy_difference": difference(shares, by_question(dense.correct, len(dense.correct)), dense.pictures),
        "accuracy_by_kind": by_kind(shares, dense.kinds, dense.pictures),
    }


def summarise_dense(dense: Dense) -> DenseSummary:
    """Return the dense model's quantities."""
    shares = by_question(dense.correct, len(dense.correct)) if dense.correct else None
    return DenseSummary(
        visual_tokens=dense.shape.visual_tokens,
        text_tokens=dense.shape.text_tokens,
        num_layers=dense.shape.num_layers,
        **_summarise_quantities(dense),
        accuracy=None if shares is None else accuracy(shares, dense.pictures),
        accuracy_by_kind={} if shares is None else by_kind(shares, dense.kinds, dense.pictures),
    )
