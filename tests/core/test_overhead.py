"""What a method says its choice costs is what torch counts while it chooses; and how often the host waits meanwhile."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tests.core import tiny
from trio_core import Trio, prune
from trio_core.method import Method
from trio_core.methods.divprune import DivPrune
from trio_core.methods.fastv import FastV
from trio_core.methods.pyramiddrop import PyramidDrop
from trio_core.methods.visionzip import VisionZip
from trio_core.models import adapter_for
from trio_core.spans import listening


def counted(family: str, one: dict[str, Tensor], method: Method) -> list[tuple[int, int]]:
    """Of each stage that chooses: MACs counted inside the span `selection`, and those declared."""
    model, visual = tiny.model(family, "eager"), len(tiny.visual_rows(one))
    counter, marks = FlopCounterMode(display=False), []

    def note(name: str, _entering: bool) -> None:
        if name == "selection":
            marks.append(counter.get_total_flops())

    with prune(model, method) as trace, torch.no_grad(), counter, listening(note):
        model(**one)
    shape, tokens = adapter_for(model).layer_shape, one["input_ids"].shape[1]
    pairs, before = [], visual
    for stage, entered, left in zip(trace.stages, marks[::2], marks[1::2], strict=True):
        declared = method.overhead(shape, tokens - (visual - before), before, stage.tokens_after)
        assert (left - entered) % 2 == 0
        pairs.append(((left - entered) // 2, declared))
        before = stage.tokens_after
    return pairs


@pytest.mark.parametrize(
    "method",
    [
        FastV(retention=0.5),
        PyramidDrop(retention=0.5, layers=(1, 3)),
        DivPrune(retention=0.5),
        Trio(retention=0.5, layers=(1, 3), nms=False),
        Trio(retention=0.5, layers=(1, 3), nms=False, probe="current", k_pos=2),
        Trio(retention=0.5, layers=(1, 3), nms=False, saliency="autograd"),
    ],
    ids=["fastv", "pyramiddrop", "divprune", "trio", "trio-current", "autograd"],
)
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_declared_overhead_is_what_is_counted(family, method):
    """Under eager attention, whose backward has the products that the formula counts; grouped and normed keys too."""
    for seen, declared in counted(family, tiny.sample(family), method):
        assert seen == declared > 0


@pytest.mark.parametrize("share", [0.0, 10 / 64, 0.95])
@pytest.mark.parametrize("retention", [0.1, 0.5])
@pytest.mark.parametrize("size", ["small", "large"])
def test_visionzips_overhead_is_what_is_counted(size, retention, share):
    ((seen, declared),) = counted(
        "llava", tiny.sample("llava", size), VisionZip(retention=retention, contextual_share=share)
    )
    assert seen == declared > 0


@pytest.mark.parametrize("retention", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("size", ["small", "large"])
def test_over_tiles_it_is_estimated_from_the_visual_tokens(size, retention):
    """Nobody says how many crops were un-padded to these tokens; they cost little beside the projector."""
    ((seen, declared),) = counted("llava_next", tiny.sample("llava_next", size), VisionZip(retention=retention))
    assert seen == pytest.approx(declared, rel=0.03)
