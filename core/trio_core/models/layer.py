"""A decoder layer taken apart into its modules, so that some of its rows can be computed without the others.

Its projections are called, never read. So LoRA, quantised and offloaded weights need no case of their own. Of a norm
only the scale is asked (`rules/norm.py`).
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from trio_core.errors import UnsupportedModel
from trio_core.rules.attention import AttentionLayer
from trio_core.rules.norm import RmsNorm


def take_apart(layer: nn.Module, finish: Callable[[Tensor, Tensor], Tensor]) -> AttentionLayer:
    """The layer's norm, projections and scaling as callables.

    layer: a decoder layer in the layout of Llama, with `input_layernorm` and `self_attn`.
    finish: (residual rows, attention's output) → the layer's output rows. It differs by family (`Adapter.finish`).

    Raises UnsupportedModel that names the first missing module.
    """
    attention = part(layer, "self_attn")
    width = attention.head_dim
    query_norm, key_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    return AttentionLayer(
        norm=rms_norm(part(layer, "input_layernorm")),
        query=_heads(part(attention, "q_proj"), width, query_norm),
        key=_heads(part(attention, "k_proj"), width, key_norm),
        value=_heads(part(attention, "v_proj"), width, None),
        output=part(attention, "o_proj"),
        finish=finish,
        scaling=attention.scaling,
        softcap=getattr(attention, "attn_logit_softcapping", None),
    )


def rms_norm(module: nn.Module) -> RmsNorm:
    """A norm module with the eps that it adds. Raises UnsupportedModel where it names no eps or is another norm."""
    if isinstance(module, nn.LayerNorm):
        raise UnsupportedModel(
            f"{type(module).__name__} is no root-mean-square norm: the layer cannot be taken apart; use saliency "
            "'autograd'"
        )
    eps = "variance_epsilon" if hasattr(module, "variance_epsilon") else "eps"
    return RmsNorm(module, part(module, eps))


def part(module: nn.Module, name: str) -> Any:
    """An attribute of a module. Raises UnsupportedModel where it is missing."""
    found = getattr(module, name, None)
    if found is None:
        raise UnsupportedModel(
            f"{type(module).__name__} has no {name!r}: the layer cannot be taken apart; use saliency 'autograd'"
        )
    return found


def _heads(project: nn.Module, width: int, norm: nn.Module | None) -> Callable[[Tensor], Tensor]:
    """A projection that returns heads: [B, S, D] → [B, S, heads, width]."""

    def heads(rows: Tensor) -> Tensor:
        made = project(rows).unflatten(-1, (-1, width))
        return made if norm is None else norm(made)

    return heads
