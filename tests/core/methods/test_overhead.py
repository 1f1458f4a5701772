"""What a method says its selection costs is what torch counts; and how often the host waits meanwhile."""

from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.rules.drawn import Waits
from trio_core import Trio, methods, prune
from trio_core.methods.divprune import DivPrune
from trio_core.methods.fastv import FastV
from trio_core.methods.method import Method
from trio_core.methods.pyramiddrop import PyramidDrop
from trio_core.methods.visionzip import VisionZip
from trio_core.models import adapter_for, toy
from trio_core.models.adapter import families
from trio_core.rules import nms, selection
from trio_core.rules.cost import Sizes
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
    behind = tokens - 1 - int(tiny.visual_rows(one)[-1])
    pairs, before = [], visual
    for stage, entered, left in zip(trace.stages, marks[::2], marks[1::2], strict=True):
        sizes = Sizes(tokens - (visual - before), before, stage.tokens_after, behind, visual)
        declared = method.overhead(shape, stage.layer, sizes)
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
@pytest.mark.parametrize("retention", [0.2, 0.5])
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl"])
def test_visionzips_overhead_is_what_is_counted(family, size, retention, share):
    ((seen, declared),) = counted(
        family, tiny.sample(family, size), VisionZip(retention=retention, contextual_share=share)
    )
    assert seen == declared > 0


@pytest.mark.parametrize("retention", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("size", ["small", "large"])
def test_over_tiles_it_is_estimated_from_the_visual_tokens(size, retention):
    """Nobody says how many crops were un-padded to these tokens; they cost little beside the projector."""
    ((seen, declared),) = counted("llava_next", tiny.sample("llava_next", size), VisionZip(retention=retention))
    assert seen == pytest.approx(declared, rel=0.03)


# --- how often the host waits ----------------------------------------------------------------------------------------


@cache
def of_size(side: int) -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """LLaVA-1.5's toy with side × side visual tokens, and a sample for it."""
    config = families["LLaVA-1.5"].toy_config()
    config.vision_config.image_size, config.text_config.max_position_embeddings = 4 * side, 2048
    model = toy.build(type(tiny.model("llava")), config, "sdpa", seed=0)
    pixels = torch.randn(1, 3, 4 * side, 4 * side, generator=torch.Generator().manual_seed(0))
    ids = [5, 6, 7, *[tiny.IMAGE] * side**2, *range(8, 17)]
    return model, {"input_ids": torch.tensor([ids]), "pixel_values": pixels}


def waits_per_stage(side: int, method: Method) -> list[int]:
    """Operators inside the span `selection` for which the host waits, were the tensors on a device."""
    (model, inputs), mode, marks = of_size(side), Waits(), []

    def note(name: str, _entering: bool) -> None:
        if name == "selection":
            marks.append(mode.counts.total())

    with prune(model, method), torch.no_grad(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(selection, "_FEW", side**2)  # `facility_location` then does what it does on a device
        model(**inputs)  # the first prefill on a model also checks what the method kept
        with listening(note), mode:
            model(**inputs)
    return [left - entered for entered, left in zip(marks[::2], marks[1::2], strict=True)]


@pytest.mark.parametrize(
    ("name", "waits"), [("random", 0), ("grid", 0), ("fastv", 1), ("pyramiddrop", 1), ("divprune", 1), ("visionzip", 2)]
)
def test_the_host_waits_as_often_for_many_tokens_as_for_few(name, waits):
    """For the check of the inputs. VisionZip checks twice in each crop: what it ranks, and what it merges."""
    for side, retention in ((8, 0.5), (24, 0.5), (24, 0.9)):
        assert set(waits_per_stage(side, methods.find(name)(retention=retention))) == {waits}


@pytest.mark.parametrize("threshold", [0.1, 0.95])
def test_trio_waits_once_on_an_accelerator_whatever_is_suppressed(monkeypatch, threshold):
    """There the first block holds all candidates. The waits of a CPU, which cost nothing, are up to 7 in this toy."""
    monkeypatch.setattr(nms, "_LEAST_BLOCK", nms._AT_ONCE)
    monkeypatch.setattr(nms, "_MOST_BLOCK", nms._AT_ONCE)
    for side, retention in ((8, 0.5), (24, 0.22), (24, 0.8)):
        assert waits_per_stage(side, Trio(retention=retention, layers=(1,), threshold=threshold)) == [1]


def test_trio_without_nms_waits_once():
    for side in (8, 24):
        assert waits_per_stage(side, Trio(retention=0.5, layers=(1, 3), nms=False)) == [1, 1]
