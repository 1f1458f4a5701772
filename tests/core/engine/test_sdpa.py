"""SDPA by each of torch's kernels: pruned layers run on the one that the dense model runs on."""

import copy

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.core import tiny
from tests.core.models.test_families import LAYERS, listening
from trio_core import prune

ON_CPU = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION
CAUSAL = [family for family in tiny.FAMILIES if "gemma" not in family and family != "molmo2"]
"""The library makes no mask for an unpadded sample of these; Gemma's and Molmo's pictures look both ways."""


def check_full_retention(family: str, kernel: SDPBackend, device: str, dtype: torch.dtype) -> None:
    model = copy.deepcopy(tiny.model(family)).to(device, dtype)
    one = {k: v.to(device, dtype if v.is_floating_point() else None) for k, v in tiny.sample(family).items()}
    with torch.no_grad(), sdpa_kernel(kernel):
        dense = model(**one, use_cache=False).logits
        with prune(model, "random", retention=1.0):
            assert torch.equal(model(**one, use_cache=False).logits, dense)
        with prune(model, "random", retention=0.5, layers=LAYERS) as trace:
            assert model(**one, use_cache=False).logits[0, trace.places[0]].isfinite().all()
    assert trace.stages


@pytest.mark.parametrize("kernel", ON_CPU, ids=lambda kernel: kernel.name)
def test_at_full_retention_it_is_the_model_bit_by_bit(kernel):
    for family in tiny.QUICK:
        check_full_retention(family, kernel, "cpu", torch.float32)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    "kernel",
    [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION],
    ids=lambda kernel: kernel.name,
)
def test_on_a_gpu(kernel):
    """CUDA's flash kernel takes no mask at all."""
    check_full_retention("llava", kernel, "cuda", torch.bfloat16)


@pytest.mark.parametrize("family", tiny.fast_first(CAUSAL, "llava", "qwen2_5_vl", "qwen3_vl"))
def test_where_the_library_sees_no_need_for_a_mask_pruned_layers_get_none(family):
    """With a mask torch would leave CUDA's flash kernel for another: pruned and dense would not compare."""
    model, one = tiny.model(family), tiny.sample(family)
    with prune(model, "random", retention=0.5, layers=LAYERS), listening(model) as calls:
        tiny.generate(model, one, 3)
    lengths = [call[-1][0].shape[1] for call in calls]
    assert lengths[0] < one["input_ids"].shape[1]
    assert lengths[1:] == [1, 1]
    assert all(kwargs["attention_mask"] is None for call in calls for _, kwargs, _ in call)
