"""The document that `--json` prints and the report embeds: quantities derived from raw samples, and the break-even."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trio_profile.analysis.accuracy import (
    SHARES,
    Kept,
    accuracy,
    by_kind,
    by_question,
    difference,
    kept,
    right,
)
from trio_profile.records.estimate import Accuracy, Difference, Measured, Milliseconds, Nats, Ratio, Share
from trio_profile.records.schema import (
    FORMAT,
    VERSION,
    Dense,
    Energy,
    Environment,
    Fidelity,
    Measurement,
    Pair,
    Record,
    Retention,
    Status,
    Study,
)
from trio_profile.stats.crossing import BreakEven, exact_break_even, measured_break_even
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import median, share_interval

MEASURED = ("prefill_ms", "total_ms")
EXACT = ("fastv_macs", "counted_macs", "kv_bytes")
QUANTITIES = (*MEASURED, *EXACT)
"""What has a break-even, in the order of the document; energy too, where it was measured."""
_AS_RECORDED = ("peak_memory_bytes", "working_memory_bytes", "peak_reserved_bytes", "launches", "host_waits")
_PARTS = ("ttft_ms", "host_ms", "vision_ms", "projector_ms", "selection_ms")


class Gamma(Record):
    """γ as the formula assumed it, and as counted: the selection's MACs over one forward of each layer it looked at."""

    assumed: float
    counted: float | None


class CellSummary(Record):
    """One cell. Speed-ups are medians of paired ratios, dense over pruned: above 1 pruning is faster.

    uncounted: operators with a product that no formula covers; while there are any, counted_macs is too low.

    fastv_macs: F_inf + F_ov by the paper's equations on visual tokens. counted_macs: half of torch's FLOPs, the
    method's own work (selection_macs) included. ttft_ms: to the first token; tpot_ms: each further one. host_ms: what
    the host takes to issue a prefill, where the device has a clock of its own. vision_ms, projector_ms, selection_ms:
    parts of the prefill. peak_memory_bytes: beyond weights and inputs; working_memory_bytes: without a cache as well.
    launches: operators in one prefill; host_waits: in them. kl_nats: median over questions or pictures of KL(dense ‖
    pruned) of the next token's distribution, each the mean over its draws; top1_agreement: share of them with the same
    likeliest token; answer_agreement: with the same generated answer. accuracy: share of questions answered as is
    known, and by kind; accuracy_difference: less the dense model's on the same questions. discarded: pairs a slow GPU
    spoilt.
    """

    method: str
    status: Status
    reason: str | None = None
    remark: str = ""
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
    top1_agreement: Share | None = None
    answer_agreement: Share | None = None
    accuracy: Accuracy | None = None
    accuracy_difference: Difference | None = None
    accuracy_by_kind: dict[str, Accuracy] = Field(default_factory=dict)
    discarded: int = 0


class DenseSummary(Record):
    """The unpruned model's exact quantities."""

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


class Document(Record):
    """What `trio-profile sweep --json` prints.

    break_even: of the study's first method, by quantity. break_even_by_method: of each method. accuracy_kept, and
    accuracy_kept_by_method: from which retention on 0.99, 0.97 and 0.95 of the dense accuracy are kept.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
    dense: DenseSummary | None
    cells: list[CellSummary]
    break_even: dict[str, BreakEven]
    break_even_by_method: dict[str, dict[str, BreakEven]]
    accuracy_kept: dict[str, Kept] = Field(default_factory=dict)
    accuracy_kept_by_method: dict[str, dict[str, Kept]] = Field(default_factory=dict)
    report: str | None = None


def summarise(
    study: Study,
    environment: Environment,
    dense: Dense | None,
    measurements: list[Measurement],
    report: str | None = None,
) -> Document:
    """Derive every statistic of a study from its records. Cells come in the study's order, not as they ran."""
    by_cell = {measurement.cell.id: measurement for measurement in measurements}
    ordered = [by_cell[cell.id] for cell in study.cells() if cell.id in by_cell]
    done = {method: [m for m in ordered if m.cell.method == method and m.status == "done"] for method in study.methods}
    by_method = {method: _break_evens(dense, some, study) for method, some in done.items()}
    answered = {method: _kept(dense, some) for method, some in done.items()}
    return Document(
        environment=environment,
        study=study,
        dense=summarise_dense(dense) if dense else None,
        cells=[summarise_cell(measurement, study, dense) for measurement in ordered],
        break_even=by_method[study.methods[0]],
        break_even_by_method=by_method,
        accuracy_kept=answered[study.methods[0]],
        accuracy_kept_by_method=answered,
        report=report,
    )


def speedups(pairs: tuple[Pair, ...], quantity: str) -> list[float]:
    """Paired ratios dense / pruned of `prefill_ms` or `total_ms`."""
    return [getattr(pair, f"dense_{quantity}") / getattr(pair, quantity) for pair in pairs]


def summarise_cell(measurement: Measurement, study: Study, dense: Dense | None) -> CellSummary:
    """Every statistic of one cell; of one that failed or was refused, its reason."""
    head = CellSummary(
        method=measurement.cell.method,
        status=measurement.status,
        reason=measurement.reason,
        nominal_retention=measurement.cell.retention,
    )
    if measurement.status != "done" or measurement.counted is None or measurement.stopped is None:
        return head
    pairs, stopped = measurement.pairs, measurement.stopped
    timed: dict[str, Measured] = {}
    for quantity in MEASURED:
        timed[quantity] = median_of(Milliseconds, [getattr(pair, quantity) for pair in pairs], stopped)
        timed[f"dense_{quantity}"] = median_of(
            Milliseconds, [getattr(pair, f"dense_{quantity}") for pair in pairs], stopped
        )
        timed[f"{quantity.removesuffix('_ms')}_speedup"] = ratio_of(speedups(pairs, quantity), stopped)
    for side in ("", "dense_"):
        for quantity in _PARTS:
            values = [value for pair in pairs if (value := getattr(pair, f"{side}{quantity}", None)) is not None]
            if len(values) == len(pairs):
                timed[f"{side}{quantity}"] = median_of(Milliseconds, values, stopped)
        if f"{side}ttft_ms" in timed and study.new_tokens > 1:
            later = [getattr(pair, f"{side}total_ms") - getattr(pair, f"{side}ttft_ms") for pair in pairs]
            timed[f"{side}tpot_ms"] = median_of(Milliseconds, [ms / (study.new_tokens - 1) for ms in later], stopped)
    return head.model_copy(
        update={
            **timed,
            **_summarise_fidelity(measurement.fidelity),
            **_summarise_answers(measurement, dense),
            "remark": measurement.remark,
            "retention": measurement.retention,
            "layers": measurement.layers,
            "budgets": measurement.budgets,
            "fastv_macs": measurement.fastv_macs,
            "fastv_overhead_macs": measurement.fastv_overhead_macs,
            "gamma": Gamma(assumed=study.gamma, counted=measurement.gamma_counted),
            "counted_macs": measurement.counted.torch_flops // 2,
            "selection_macs": measurement.counted.selection_flops // 2,
            "fvcore_macs": measurement.counted.fvcore_macs,
            "uncounted": measurement.counted.uncounted,
            "kv_bytes": measurement.kv_bytes,
            "kv_bytes_predicted": measurement.kv_bytes_predicted,
            **{name: getattr(measurement, name) for name in _AS_RECORDED},
            "energy": measurement.energy,
            "discarded": measurement.discarded,
        }
    )


def _summarise_fidelity(fidelity: Fidelity | None) -> dict[str, Nats | Share]:
    if fidelity is None:
        return {}
    questions = len(fidelity.kl_nats) // fidelity.draws
    found: dict[str, Nats | Share] = {
        "kl_nats": median_of(Nats, by_question(fidelity.kl_nats, questions).tolist(), "budget"),
        "top1_agreement": _share(by_question(fidelity.top1, questions)),
    }
    if fidelity.same:
        found["answer_agreement"] = _share(by_question(fidelity.same, questions))
    return found


def _share(seen: NDArray[np.float64]) -> Share:
    count, samples = float(seen.sum()), len(seen)
    return Share(value=count / samples, ci95=share_interval(count, samples), samples=samples)


def _summarise_answers(measurement: Measurement, dense: Dense | None) -> dict[str, Any]:
    """Accuracy, where answers are known."""
    shares = right(measurement, dense)
    if shares is None or dense is None:
        return {}
    return {
        "accuracy": accuracy(shares),
        "accuracy_difference": difference(shares, by_question(dense.correct, len(dense.correct))),
        "accuracy_by_kind": by_kind(shares, dense.kinds),
    }


def _kept(dense: Dense | None, done: list[Measurement]) -> dict[str, Kept]:
    """From which retention on a method keeps each share of the dense accuracy; nothing where none is known or right."""
    told = [m for m in done if m.fidelity is not None and m.fidelity.correct and m.retention is not None]
    if dense is None or not any(dense.correct) or len(told) < 2:
        return {}
    reached = [m.retention.realised for m in told if m.retention is not None]
    shares = [by_question(m.fidelity.correct, len(dense.correct)) for m in told if m.fidelity is not None]
    faster = [median(speedups(m.pairs, "prefill_ms")) for m in told]
    whole = by_question(dense.correct, len(dense.correct))
    return {f"{share:g}": kept(reached, shares, whole, share, faster) for share in SHARES}


def summarise_dense(dense: Dense) -> DenseSummary:
    """The unpruned model's quantities."""
    whole = by_question(dense.correct, len(dense.correct)) if dense.correct else np.array([])
    return DenseSummary(
        visual_tokens=dense.shape.visual_tokens,
        text_tokens=dense.shape.text_tokens,
        num_layers=dense.shape.num_layers,
        fastv_macs=dense.fastv_macs,
        counted_macs=dense.counted.torch_flops // 2,
        fvcore_macs=dense.counted.fvcore_macs,
        uncounted=dense.counted.uncounted,
        kv_bytes=dense.kv_bytes,
        kv_bytes_predicted=dense.kv_bytes_predicted,
        **{name: getattr(dense, name) for name in _AS_RECORDED},
        energy=dense.energy,
        accuracy=accuracy(whole) if len(whole) else None,
        accuracy_by_kind=by_kind(whole, dense.kinds) if len(whole) else {},
    )


def _break_evens(dense: Dense | None, done: list[Measurement], study: Study) -> dict[str, BreakEven]:
    """One method's break-even by quantity, over the retentions that were really reached."""
    cells = [summarise_cell(measurement, study, None) for measurement in done]
    reached = [cell.retention.realised for cell in cells if cell.retention is not None]
    found: dict[str, BreakEven] = {}
    for quantity in MEASURED:
        ratios = [[1 / speedup for speedup in speedups(measurement.pairs, quantity)] for measurement in done]
        found[quantity] = measured_break_even(reached, ratios)
    whole = summarise_dense(dense) if dense else None
    exact: dict[str, list[float]] = {quantity: [getattr(cell, quantity) for cell in cells] for quantity in EXACT}
    whole_of: dict[str, float] = {quantity: getattr(whole, quantity) for quantity in EXACT} if whole else {}
    joules = [cell.energy.prefill_j for cell in cells if cell.energy is not None and cell.energy.prefill_j is not None]
    if dense is not None and dense.energy is not None and dense.energy.prefill_j and len(joules) == len(cells):
        exact["energy_j"], whole_of["energy_j"] = joules, dense.energy.prefill_j
    for quantity, costs in exact.items():
        found[quantity] = (
            exact_break_even(reached, costs, whole_of[quantity]) if whole_of else BreakEven(status="inconclusive")
        )
    if "energy_j" in found:  # measured once, whose noise is not known
        found["energy_j"] = found["energy_j"].model_copy(update={"ci95": None})
    return found
