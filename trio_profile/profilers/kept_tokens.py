"""Which visual tokens of the study's picture a method keeps, stage by stage, with their maps: scores and merges."""

import torch

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_core.trace import StageTrace, Trace
from trio_profile.inputs.picture import lay_out, shown_inputs
from trio_profile.inputs.workload import Workload
from trio_profile.records.schema import KeptTokens, StageTokens


def measure(workload: Workload, method: Method, trace: Trace, *, keep_maps: bool = True) -> KeptTokens | None:
    """Return the kept tokens of the picture that the study shows, for the first sample.

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
    return of_trace(trace, keep_maps=keep_maps)


def of_trace(trace: Trace, *, keep_maps: bool = True) -> KeptTokens:
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
