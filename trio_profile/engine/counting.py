"""The exact quantities of the dense model and of a cell, which do not depend on a clock: work, memory, kept tokens."""

from typing import Any

import torch

from trio_core.errors import MethodError
from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_core.trace import StageTrace, Trace
from trio_profile.cost import formula
from trio_profile.engine.factors import dense_macs
from trio_profile.engine.plan import PlannedCell
from trio_profile.errors import is_out_of_memory, release
from trio_profile.inputs.picture import lay_out, shown_inputs
from trio_profile.inputs.questions import known_of
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import flops_counted, gpu, launches, memory
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.records.schema import Cell, Dense, KeptTokens, Measurement, Shape, StageTokens, Study
from trio_profile.text import first_line

Counts = dict[str, Any]
"""Some fields of a Measurement."""


def measure_dense(workload: Workload) -> Dense:
    """Return the exact quantities of the dense model."""
    shape = workload.shape
    counted, _ = flops_counted.measure(workload, None)
    return Dense(
        shape=shape,
        fastv_macs=dense_macs(shape),
        counted=counted,
        kv_bytes_predicted=memory.predicted_bytes(shape, [shape.visual_tokens] * shape.num_layers),
        kv_bytes=sum(memory.cache_bytes(workload, None)[0]),
        **_count_in_prefill(workload, None),
        energy=gpu.measure_energy(workload, None),
        **known_of(workload.questions),
    )


def count(workload: Workload, planned: PlannedCell, study: Study) -> Counts:
    """Return the exact quantities of a cell, and the tokens that it keeps."""
    shape, schedule = workload.shape, planned.schedule
    counted, trace = flops_counted.measure(workload, planned.method)
    held, plain_trace = memory.cache_bytes(workload, planned.method)  # while operators are counted, other code may run
    assert trace is not None
    assert plain_trace is not None
    return {
        "remark": planned.method.reference.remark,
        "notes": plain_trace.notes,
        "retention": planned.retention(trace.realised_retention),
        "layers": schedule.layers,
        "budgets": schedule.budgets,
        "fastv_macs": planned.fastv_macs(shape, study.gamma),
        "fastv_overhead_macs": planned.fastv_overhead_macs(shape, study.gamma),
        "gamma_counted": _gamma_counted(planned, shape, counted.selection_flops),
        "counted": counted,
        "kept": kept_tokens(workload, planned.method, trace, keep_maps=study.picture),
        "kv_bytes": sum(held),
        "kv_bytes_predicted": memory.predicted_bytes(shape, schedule.tokens_by_layer),
        **_count_in_prefill(workload, planned.method),
    }


def kept_tokens(workload: Workload, method: Method, trace: Trace, *, keep_maps: bool = True) -> KeptTokens | None:
    """Return the visual tokens that a method keeps of the first sample's picture.

    It is None if the model's tokens cannot be placed on the picture.

    trace: of a prefill of the study's own input. If the study shows another one, that one is run.
    keep_maps: False leaves out the scores, and which token went into which. Both can show outlines of the picture.
    """
    inputs = shown_inputs(workload)
    if lay_out(workload.adapter, inputs) is None:
        return None
    if inputs is not workload.inputs:
        with prune(workload.model, method) as trace, torch.no_grad():
            workload.model(**inputs, logits_to_keep=1)
    return kept_in(trace, keep_maps=keep_maps)


def kept_in(trace: Trace, *, keep_maps: bool = True) -> KeptTokens:
    """Return the kept tokens of the first sample of a trace."""
    count = trace.visual_tokens[0]
    stages = tuple(_stage(stage, count, keep_maps=keep_maps) for stage in trace.stages)
    return KeptTokens(visual_tokens=count, stages=stages)


def _stage(stage: StageTrace, visual_tokens: int, *, keep_maps: bool) -> StageTokens:
    scores, merged_into = (stage.scores, stage.merged_into) if keep_maps else (None, None)
    return StageTokens.of(
        stage.layer,
        visual_tokens,
        stage.kept[0].tolist(),
        None if scores is None else scores[0].detach().double().cpu().numpy(),
        merges=stage.merges,
        merged_into=None if merged_into is None else merged_into[0].cpu().numpy(),
    )


def failure_of(cell: Cell, error: Exception) -> Measurement:
    """Return the record of a cell that ran out of memory, and free what it holds. Any other error is raised again."""
    if not is_out_of_memory(error):
        raise error
    release(error)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    cause = error.__cause__ if isinstance(error, MethodError) and error.__cause__ else error
    return Measurement(cell=cell, status="failed", reason=f"out of memory: {first_line(cause)}"[:300])


def _count_in_prefill(workload: Workload, method: Method | None) -> Counts:
    """Return the peak memory, the launches and the `further` quantities. method: None for the dense model."""
    values = {name: quantity.measure(workload, method) for name, quantity in QUANTITIES.items() if quantity.measure}
    return {
        **memory.measure(workload, method)._asdict(),
        **launches.measure(workload, method)._asdict(),
        "further": {name: value for name, value in values.items() if value is not None} or None,
    }


def _gamma_counted(planned: PlannedCell, shape: Shape, selection_flops: int) -> float | None:
    """Return the counted γ: work of the selections / one forward of each layer that they look at, text included."""
    forwards = sum(formula.layer_macs(visual + shape.text_tokens, shape) for visual in planned.stage_tokens)
    return selection_flops / 2 / (forwards * shape.batch) if forwards else None
