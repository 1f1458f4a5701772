"""Weights that are not plain: adapters, quantised linears, offloading, half precision.

The oracle is the model whose weights are plain: the adapter merged, or the quantised rows written out.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from accelerate import cpu_offload, disk_offload, dispatch_model
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import methods, prune
from trio_core.methods.method import Method

GROUP = Group("Adapters, quantised and offloaded weights")
METHODS = ("trio", "fastv", "dart", "fitprune")
"""Methods that look into a decoder layer: each reads other parts of it."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def prefill_is_right(
    model: Any,
    plain: Any,
    method: Method = bench.METHOD,
    dtype: torch.dtype = torch.float32,
    share: float = 1e-4,
) -> None:
    """A prefill against the sequence that is shortened physically. plain: the model with plain weights in float32."""
    one = bench.sample()
    with prune(model, method) as trace:
        logits = bench.forward(model, one, pixel_values=one["pixel_values"].to(dtype)).logits
    assert logits.dtype == dtype or torch.is_autocast_enabled("cpu")
    bench.prefill_is_right(trace, one, logits, plain=plain, same=False, share=share, method=method)


# --- adapters --------------------------------------------------------------------------------------------------------


def with_lora() -> tuple[Any, PreTrainedModel]:
    """A PeftModel with an adapter that matters on q, k, v and o of each decoder layer; the same model merged."""
    layers = r".*language_model.*\.(" + "|".join(PROJECTIONS) + ")"
    adapted: Any = get_peft_model(bench.model(), LoraConfig(r=4, lora_alpha=16, target_modules=layers)).eval()
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if "lora_" in name:
                weights.copy_(torch.randn(weights.shape) / weights.shape[1] ** 0.5)
    return adapted, copy.deepcopy(adapted).merge_and_unload()


def same_tokens(given: Any, plain: Any, name: str, called: Any = None) -> None:
    """The method keeps what it keeps on the plain model, and the logits are the plain model's.

    given: the model that is pruned. called: the model that is called, if it is another one.
    """
    one, method = bench.sample(), methods.find(name)(retention=0.5)
    with prune(plain, method) as trace:
        expected = bench.forward(plain, one).logits
    with prune(given, method) as ours:
        logits = bench.forward(called if called is not None else given, one).logits
    bench.dropped(ours, method=method)
    assert bench.kept(ours) == bench.kept(trace), "the plain model keeps other tokens"
    assert bench.near(logits[0], expected[0]), "the logits are not the plain model's"
    assert not ours.notes, "the layer was not taken apart"


def as_merged(name: str, prune_inner: bool, call_inner: bool) -> None:
    """A method on an adapter that is not merged. The inner model of the PeftModel is pruned or called, or itself."""
    adapted, merged = with_lora()
    inner = adapted.base_model.model
    same_tokens(inner if prune_inner else adapted, merged, name, inner if call_inner else adapted)


for _name in METHODS:
    GROUP.works(f"LoRA on q, k, v and o, not merged: `{_name}`", partial(as_merged, _name, True, True))


@GROUP.works("LoRA, merged by `merge_and_unload()`")
def merged_adapter() -> None:
    _, merged = with_lora()
    prefill_is_right(merged, merged)


GROUP.works("A `PeftModel` is passed to `prune` and called", partial(as_merged, "trio", False, False))
GROUP.works(
    "The inner model of a `PeftModel` is passed to `prune`; the `PeftModel` is called",
    partial(as_merged, "trio", True, False),
)


@GROUP.works("`PeftModel.generate`")
def peft_generate() -> None:
    adapted, merged = with_lora()
    one = bench.sample()
    with prune(adapted, bench.METHOD) as trace:
        output = bench.generate(adapted, one)
    bench.text_is_right(trace, one, output, plain=merged)


@GROUP.works("`PeftModel.disable_adapter()` inside the context")
def adapter_disabled() -> None:
    adapted, one = with_lora()[0], bench.sample()
    with prune(adapted.base_model.model, bench.METHOD) as trace, adapted.disable_adapter():
        logits = bench.forward(adapted.base_model.model, one).logits
    bench.prefill_is_right(trace, one, logits)


@GROUP.works("`PeftModel.unload()` inside the context")
def adapter_unloaded() -> None:
    adapted, one = with_lora()[0], bench.sample()
    with prune(adapted.base_model.model, bench.METHOD) as trace:
        logits = bench.forward(adapted.unload(), one).logits
    bench.prefill_is_right(trace, one, logits)


# --- quantised linears -----------------------------------------------------------------------------------------------


class QuantisedLinear(nn.Module):
    """A linear layer without `.weight`: it stores integer rows, and writes them out in each forward.

    bits: 8, or 4 with two numbers in each stored byte.
    """

    def __init__(self, plain: nn.Linear, bits: int):
        super().__init__()
        largest = 2 ** (bits - 1) - 1
        self.bits, self.bias = bits, plain.bias
        scale = plain.weight.detach().abs().amax(dim=1, keepdim=True) / largest
        levels = (plain.weight.detach() / scale).round().to(torch.int16) + largest
        packed = levels if bits == 8 else levels[:, 0::2] + 16 * levels[:, 1::2]
        self.register_buffer("scale", scale)
        self.register_buffer("packed", packed.to(torch.uint8))

    def dequantised(self) -> Tensor:
        """[out, in]: the rows as floating point."""
        packed: Any = self.packed
        levels = packed if self.bits == 8 else torch.stack([packed % 16, packed // 16], dim=-1).flatten(1)
        return (levels.float() - (2 ** (self.bits - 1) - 1)) * self.scale

    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.linear(rows, self.dequantised(), self.bias)


def quantised(bits: int) -> tuple[PreTrainedModel, PreTrainedModel]:
    """A model whose decoder layers have quantised linears, and the model with the same rows as plain weights."""
    model, plain = bench.model(), bench.model()
    for path, module in plain.get_submodule("model.language_model.layers").named_modules():
        if isinstance(module, nn.Linear):
            linear = QuantisedLinear(module, bits)
            model.set_submodule(f"model.language_model.layers.{path}", linear)
            module.weight.data = linear.dequantised()
    return model, plain


def every_method(model: Any, plain: PreTrainedModel) -> None:
    """Each of METHODS keeps the plain model's tokens."""
    for name in METHODS:
        same_tokens(model, plain, name)


GROUP.works("8-bit linears without `.weight`", lambda: every_method(*quantised(8)))
GROUP.works("4-bit linears without `.weight`, two numbers in a byte", lambda: every_method(*quantised(4)))


class Inferring(nn.Linear):
    """A linear layer for inference only: autograd cannot differentiate it."""

    forward = torch.no_grad()(nn.Linear.forward)


def with_inferring(path: str) -> PreTrainedModel:
    """A model whose linear at `path` of each decoder layer is for inference only."""
    model = bench.model()
    for layer in cast(Any, model).model.language_model.layers:
        layer.get_submodule(path).__class__ = Inferring
    return model


def quantised_for_inference(*, in_ffn: bool) -> PreTrainedModel:
    """A model after torch's own quantisation to 8 bits, of all linears or of the FFNs alone."""
    model, quantize = bench.model(), torch.ao.quantization.quantize_dynamic
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that its successor is torchao
        if not in_ffn:
            return quantize(model, {nn.Linear})
        for layer in cast(Any, model).model.language_model.layers:
            layer.mlp = quantize(layer.mlp, {nn.Linear})
    return model


def trio_on(make: Callable[[], PreTrainedModel], saliency: Any) -> None:
    """One prefill of TRIO on a model without gradients."""
    model = make()
    with prune(model, replace(bench.METHOD, saliency=saliency)):
        bench.forward(model, bench.sample())


for _saliency in ("tail", "autograd"):
    for _title, _make in (
        ("`torch.ao.quantization.quantize_dynamic`", partial(quantised_for_inference, in_ffn=False)),
        (
            "An FFN alone that gives no gradient (`quantize_dynamic`)",
            partial(quantised_for_inference, in_ffn=True),
        ),
        ("Linears for inference only at `v_proj`", partial(with_inferring, "self_attn.v_proj")),
    ):
        GROUP.refused(f"{_title}: `trio` with `{_saliency}`", partial(trio_on, _make, _saliency))


GROUP.refused(
    "A linear for inference only at `gate_proj` alone: `trio`",
    partial(trio_on, partial(with_inferring, "mlp.gate_proj"), "tail"),
)


@GROUP.works("`torch.ao.quantization.quantize_dynamic`: methods that need no gradient")
def dynamic_without_gradient() -> None:
    """Each layer quantises its input by the range of all its rows, so another number of rows rounds otherwise."""
    model = quantised_for_inference(in_ffn=False)
    for name in METHODS[1:]:
        prefill_is_right(model, None, methods.find(name)(retention=0.5), share=0.2)


# --- offloading ------------------------------------------------------------------------------------------------------


def offloaded(offload: Callable[[PreTrainedModel, str], Any]) -> None:
    """The same tokens and logits as without offloading. offload: is given a model and a folder."""
    model = bench.model()
    with tempfile.TemporaryDirectory() as directory:
        every_method(offload(model, directory) or model, tiny.model("llava"))


def device_map(model: PreTrainedModel, directory: str) -> Any:
    places: dict[str, Any] = {"model.vision_tower": "cpu", "model.multi_modal_projector": "cpu", "lm_head": "cpu"}
    places |= {f"model.language_model.{name}": "cpu" for name in ("embed_tokens", "norm", "rotary_emb")}
    places |= {f"model.language_model.layers.{i}": "cpu" if i < 2 else "disk" for i in range(tiny.NUM_LAYERS)}
    return dispatch_model(model, places, main_device="cpu", offload_dir=directory)


GROUP.works("`accelerate.cpu_offload`", partial(offloaded, lambda model, _: cpu_offload(model, execution_device="cpu")))
GROUP.works(
    "`accelerate.disk_offload`",
    partial(offloaded, lambda model, directory: disk_offload(model, directory, execution_device="cpu")),
)
GROUP.works(
    "`device_map` over two devices, as far as a CPU can show it: layers 3 and up on `disk`, the rest on `cpu`",
    partial(offloaded, device_map),
    says="Two real devices were not there",
)


# --- precision -------------------------------------------------------------------------------------------------------


def in_half(dtype: torch.dtype, share: float) -> None:
    model = bench.model().to(dtype)
    prefill_is_right(model, copy.deepcopy(model).float(), dtype=dtype, share=share)


GROUP.works("`model.half()`", partial(in_half, torch.float16, 0.02))
GROUP.works("`model.bfloat16()`", partial(in_half, torch.bfloat16, 0.1))


@GROUP.works('`torch.autocast("cpu", torch.bfloat16)`')
def autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        prefill_is_right(bench.model(), None, share=0.1)


@GROUP.works("`model.to(torch.float64)` inside the context")
def retyped(model, one):
    model.to(torch.float64)
    return bench.forward(model, one, pixel_values=one["pixel_values"].double())
