"""The root-mean-square norm in few operators against the library's modules and against autograd."""

import pytest
import torch
from torch import Tensor, nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tests.core import tiny
from trio_core import UnsupportedModel
from trio_core.models.layer import rms_norm
from trio_core.rules.norm import RmsNorm

WIDTH = 12


def made(kind: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A norm module with random weights."""
    module: nn.Module = {"llama": LlamaRMSNorm, "gemma": GemmaRMSNorm, "torch": nn.RMSNorm}[kind](WIDTH, eps=1e-3)
    with torch.no_grad():
        module.weight.copy_(torch.randn(WIDTH, generator=torch.Generator().manual_seed(0)))
    return module.to(dtype)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("kind", ["llama", "gemma", "torch"])
@pytest.mark.parametrize("shape", [(2, 9), (1, 4), (7,), (2, 3, 4)])
def test_it_is_the_modules_norm(kind, shape):
    module, values = made(kind), drawn(*shape)
    assert torch.allclose(rms_norm(module)(values), module(values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_slope_lengths_are_the_lengths_of_autograds_gradient(kind):
    module, values, slope = made(kind), drawn(2, 9).requires_grad_(), torch.randn(2, 9, WIDTH)
    (gradient,) = torch.autograd.grad(module(values), values, slope)
    ours = rms_norm(module).slope_lengths(values.detach(), slope.clone())
    assert torch.allclose(ours, gradient.norm(dim=-1), rtol=1e-5)


# --- the module's own scale ------------------------------------------------------------------------------------------


def test_a_hook_or_a_wrapper_is_heeded():
    """A hook may load the weight, and a wrapper may choose among several norms."""
    hooked, factors = made("torch"), [1.0]
    hooked.register_forward_hook(lambda _module, _args, output: output * factors[0])
    wrapped = nn.Sequential(made("torch"))
    for module in (hooked, wrapped):
        norm = RmsNorm(module, 1e-3)
        for factor in (1.0, 3.0):
            factors[0] = factor
            if module is wrapped:
                wrapped[0].weight = nn.Parameter(torch.full((WIDTH,), factor))
            assert torch.allclose(norm(drawn(1, 4)), module(drawn(1, 4)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["after", "before", "after all", "before all"])
def test_a_hook_that_does_more_than_scale_runs(kind):
    module, every = made("llama"), torch.nn.modules.module
    register, hook = {
        "after": (module.register_forward_hook, lambda _module, _args, output: output + 1),
        "before": (module.register_forward_pre_hook, lambda _module, args: (args[0] + 1,)),
        "after all": (every.register_module_forward_hook, lambda _module, _args, output: output + 1),
        "before all": (every.register_module_forward_pre_hook, lambda _module, args: (args[0] + 1,)),
    }[kind]
    values = drawn(1, 4)
    plain = module(values)
    with tiny.attached([register(hook)]):
        assert torch.equal(rms_norm(module)(values), module(values))
        assert not torch.equal(module(values), plain)


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_the_scale_of_a_norm_in_half_precision_is_not_rounded(kind):
    module, values = made(kind, torch.bfloat16), drawn(1, 4, dtype=torch.bfloat16)
    scale = module.weight.float() + (1 if kind == "gemma" else 0)
    assert torch.allclose(rms_norm(module).factors(values).gain / WIDTH**0.5, scale, rtol=1e-6)


def test_another_norm_is_refused():
    with pytest.raises(UnsupportedModel, match=r"LayerNorm is no root-mean-square norm: .* use saliency 'autograd'"):
        rms_norm(nn.LayerNorm(WIDTH))
