"""The quantities of one cell and of the dense model, derived from their records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from trio_profile.analysis.accuracy import accuracy, by_kind, by_question, correct_shares, difference, mean_share
from trio_profile.analysis.times import SPEEDUPS, speedup_centres, summarise_times, why_stopped
from trio_profile.records.estimate import Accuracy, Difference, Milliseconds, Nats, Ratio, Share
from trio_profile.records.schema import (
    Counted,
    Dense,
    Energy,
    Fidelity,
    Measurement,
    Record,
    Retention,
    Status,
    Study,
)
from trio_profile.stats.intervals import machine_spread, mean_interval, median, median_interval, quantile_interval

MEASURED = ("prefill_ms", "total_ms")
"""The times that have a speed-up."""
_OF_ALL = (
    *("fastv_macs", "kv_bytes", "kv_bytes_predicted", "peak_memory_bytes", "working_memory_bytes"),
    *("peak_reserved_bytes", "launches", "host_waits", "energy"),
)
"""Fields that the summaries of a cell and of the dense model copy from their records."""
_OF_A_CELL = (*_OF_ALL, "remark", "notes", "retention", "layers", "budgets", "fastv_overhead_macs", "discarded")
"""Fields that the summary of a cell copies from its record."""


class Gamma(Record):
    """γ is the work of the selections, divided by one forward of each layer that they look at.

    assumed: the γ of the paper's formula.
    counted: γ of the counted work; None if no layer was looked at.
    """

    assumed: float
    counted: float | None


class CellSummary(Record):
    """The quantities of one cell.

    method: name of the method.
    status: `done`, `failed` or `refused`.
    reason: why the cell failed or was refused.
    remark: what readers must know of the method wherever its results are shown.
    notes: what readers must know of how the prefill ran.
    retention: nominal and realised retention; None unless the cell is done.
    nominal_retention: the share of the visual tokens that the user gave.
    layers, budgets: the stages, and the visual tokens that each stage keeps.

    *_ms: the times in the pruned runs, as in `records.timing.Timed`. dense_*_ms: the same times in the dense runs.
    *_speedup: median of the ratios dense / pruned within rounds. Above 1 pruning is faster. That of the total is put
        together from the prefill, which is measured in more rounds, and the rest of a generation.
    ttft_ms: time to the first token.
    tpot_ms: time of each further token.
    cpu_ms: CPU time of the process during the prefill, all threads together; None on a GPU.
    host_ms: time that the host needs to issue a prefill; None on the CPU.
    vision_ms, projector_ms, selection_ms: parts of the prefill.

    fastv_macs: F_inf + F_ov by the paper's formulas on visual tokens.
    fastv_overhead_macs: F_ov alone.
    gamma: the assumed and the counted γ.
    fastv_macs_counted_gamma: fastv_macs with the counted γ in place of the assumed one; None without F_ov.
    counted_macs: half of torch's FLOPs, the selections included.
    selection_macs: the part of `counted_macs` that the selections cost.
    fvcore_macs: MACs by fvcore; None if its tracer cannot follow the model.
    uncounted: operators with a matrix product but without a formula. If there are any, `counted_macs` is too low.

    kv_bytes, kv_bytes_predicted: size of the KV cache, measured and by formula.
    peak_memory_bytes: peak memory of one prefill, without weights and inputs.
    working_memory_bytes: the same for a prefill that makes no KV cache.
    peak_reserved_bytes: all memory that the allocator took from the GPU; None on the CPU.
    launches: operators in one prefill.
    host_waits: how often the host waited for a value in one prefill.
    energy: joules of a prefill and of a decoded token.

    kl_nats: KL(dense ‖ pruned) of the next token's distribution: the median over questions or pictures.
    kl_nats_mean, kl_nats_p95: its mean and its 95th percentile. A method that fails at few questions has a small
        median, but a large mean.
    top1_agreement: share of questions or pictures with the same most likely next token.
    answer_agreement: share of questions with the same generated answer.
    accuracy: share of questions that are answered right.
    accuracy_difference: this accuracy minus the dense model's accuracy on the same questions.
    accuracy_by_kind: the accuracy for each kind of question.
    discarded: number of rounds that were discarded because the GPU was slow.
    """

    method: str
    status: Status
    reason: str | None = None
    remark: str = ""
    notes: tuple[str, ...] = ()
    retention: Retention | None = None
    nominal_retention: float
    layers: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
    prefill_ms: Milliseconds | None = None
    prefill_speedup: Ratio | None = None
    dense_prefill_ms: Milliseconds | None = None
    total_ms: Milliseconds | None = None
    total_speedup: Ratio | None = None
    dense_total_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    dense_ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    dense_tpot_ms: Milliseconds | None = None
    cpu_ms: Milliseconds | None = None
    cpu_speedup: Ratio | None = None
    dense_cpu_ms: Milliseconds | None = None
    host_ms: Milliseconds | None = None
    dense_host_ms: Milliseconds | None = None
    vision_ms: Milliseconds | None = None
    dense_vision_ms: Milliseconds | None = None
    projector_ms: Milliseconds | None = None
    dense_projector_ms: Milliseconds | None = None
    selection_ms: Milliseconds | None = None
    fastv_macs: int | None = None
    fastv_overhead_macs: int | None = None
    gamma: Gamma | None = None
    fastv_macs_counted_gamma: int | None = None
    counted_macs: int | None = None
    selection_macs: int | None = None
    fvcore_macs: int | None = None
    uncounted: tuple[str, ...] = ()
    kv_bytes: int | None = None
    kv_bytes_predicted: int | None = None
    peak_memory_bytes: int | None = None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    kl_nats: Nats | None = None
    kl_nats_mean: Nats | None = None
    kl_nats_p95: Nats | None = None
    top1_agreement: Share | None = None
    answer_agreement: Share | None = None
    accuracy: Accuracy | None = None
    accuracy_difference: Difference | None = None
    accuracy_by_kind: dict[str, Accuracy] = Field(default_factory=dict)
    discarded: int = 0


class DenseSummary(Record):
    """The dense model's exact quantities and its accuracy. The fields are as in `CellSummary`."""

    visual_tokens: int
    text_tokens: int
    num_layers: int
    fastv_macs: int
    counted_macs: int
    fvcore_macs: int | None
    uncounted: tuple[str, ...]
    kv_bytes: int
    kv_bytes_predicted: int
    peak_memory_bytes: int | None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    accuracy: Accuracy | None = None
    accuracy_by_kind: dict[str, Accuracy] = Field(default_factory=dict)


def summarise_cells(measurements: Sequence[Measurement], study: Study, dense: Dense | None) -> list[CellSummary]:
    """Return the quantities of all cells of a study. A cell that failed or was refused has only its reason."""
    done = [measurement for measurement in measurements if measurement.status == "done"]
    machine, stopped = machine_spread(study.device), why_stopped(done, study)
    speedups = {time: speedup_centres(done, time, machine) for time in SPEEDUPS}
    return [
        _summarise(one, study, dense, summarise_times(one, speedups, stopped, study) if one.status == "done" else {})
        for one in measurements
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
            **_summarise_counts(counted),
            "gamma": Gamma(assumed=study.gamma, counted=measurement.gamma_counted),
            "fastv_macs_counted_gamma": _with_counted_gamma(measurement, study),
            "selection_macs": counted.selection_flops // 2,
        }
    )


def _with_counted_gamma(measurement: Measurement, study: Study) -> int | None:
    """Return F_inf + γ · Σ f(V) with the counted γ; None for a cell without F_ov."""
    claimed, overhead, gamma = measurement.fastv_macs, measurement.fastv_overhead_macs, measurement.gamma_counted
    if claimed is None or not overhead or gamma is None:
        return None
    return claimed - overhead + round(overhead * gamma / study.gamma)


def _summarise_counts(counted: Counted) -> dict[str, Any]:
    """Return the counted work in MACs."""
    return {
        "counted_macs": counted.torch_flops // 2,
        "fvcore_macs": counted.fvcore_macs,
        "uncounted": counted.uncounted,
    }


def _summarise_fidelity(fidelity: Fidelity | None, pictures: Sequence[int]) -> dict[str, Nats | Share]:
    """Return how close the output is to the dense model's output.

    pictures: number of the picture of each question; empty if each has a picture of its own.
    """
    if fidelity is None:
        return {}
    questions = len(fidelity.kl_nats) // fidelity.draws
    divergences = by_question(fidelity.kl_nats, questions)

    def nats(value: float, interval: tuple[float, float]) -> Nats:
        return Nats(value=value, ci95=interval, samples=questions, stopped="budget")

    found: dict[str, Nats | Share] = {
        "kl_nats": nats(median(divergences.tolist()), median_interval(divergences.tolist(), clusters=pictures)),
        "kl_nats_mean": nats(float(divergences.mean()), mean_interval(divergences, clusters=pictures)),
        "kl_nats_p95": nats(
            float(np.quantile(divergences, 0.95)), quantile_interval(divergences, 0.95, clusters=pictures)
        ),
        "top1_agreement": mean_share(by_question(fidelity.top1, questions), Share, pictures),
    }
    if fidelity.same:
        found["answer_agreement"] = mean_share(by_question(fidelity.same, questions), Share, pictures)
    return found


def loss(cell: CellSummary) -> float | None:
    """Return a cell's share of wrong answers, or its mean KL where no answers are known; None without either."""
    if cell.accuracy is not None:
        return 1 - cell.accuracy.value
    return None if cell.kl_nats_mean is None else cell.kl_nats_mean.value


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
        **_summarise_counts(dense.counted),
        **{name: getattr(dense, name) for name in _OF_ALL},
        accuracy=None if shares is None else accuracy(shares, dense.pictures),
        accuracy_by_kind={} if shares is None else by_kind(shares, dense.kinds, dense.pictures),
    )


def with_counted_gamma(cell: CellSummary) -> int | None:
    """Return a cell's work by the formula with the counted γ; None if the work of its selection was not counted.

    A cell without F_ov has no γ. Its work by the formula is known.
    """
    return cell.fastv_macs if cell.fastv_overhead_macs == 0 else cell.fastv_macs_counted_gamma
