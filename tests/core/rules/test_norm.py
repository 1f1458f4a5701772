"""The root-mean-square norm in few operators against the library's modules and against autograd."""

import pytest
import torch
from torch import Tensor, nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from trio_core import UnsupportedModel
from trio_core.models.layer import rms_norm

WIDTH = 12


def made(kind: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A norm module with random weights."""
    module: nn.Module = {"llama": LlamaRMSNorm, "gemma": GemmaRMSNorm, "torch": nn.RMSNorm}[kind](WIDTH, eps=1e-3)
    with torch.no_grad():
        module.weight.copy_(torch.randn(WIDTH, generator=torch.Generator().manual_seed(0)))
    return module.to(dtype)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


# --- the module's own scale ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_the_scale_of_a_norm_in_half_precision_is_not_rounded(kind):
    module, values = made(kind, torch.bfloat16), drawn(1, 4, dtype=torch.bfloat16)
    scale = module.weight.float() + (1 if kind == "gemma" else 0)
    assert torch.allclose(rms_norm(module).factors(values).gain / WIDTH**0.5, scale, rtol=1e-6)


def test_another_norm_is_refused():
    with pytest.raises(UnsupportedModel, match=r"LayerNorm is no root-mean-square norm: .* use saliency 'autograd'"):
        rms_norm(nn.LayerNorm(WIDTH))
