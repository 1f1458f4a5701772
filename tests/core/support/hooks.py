"""Hooks and replaced forwards inside a decoder layer.

The oracle is a model without hooks whose weights do the same, where there is one. Elsewhere it is
`saliency="autograd"`, which runs the whole layer with everything that hangs on it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.llama.modeling_llama import LlamaAttention

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import methods, prune
from trio_core.methods.method import Method
from trio_core.trace import Trace

GROUP = Group("Hooks inside a decoder layer")
Change = Callable[[Any], Any]
"""Changes a decoder layer in place. It may return the handle of a hook on all modules."""


def layers_of(model: Any) -> list[Any]:
    return list(model.model.language_model.layers)


def changed(change: Change) -> tuple[Any, list[Any]]:
    """A model whose layers are changed, and the handles to remove."""
    model = bench.model(attention="eager")
    return model, [handle for layer in layers_of(model) if hasattr(handle := change(layer), "remove")]


def scores_of(model: Any, method: Method) -> tuple[list[Tensor], Trace]:
    """The scores of each stage, and the trace."""
    with prune(model, method) as trace:
        bench.forward(model, bench.sample())
    bench.dropped(trace, method=method)
    return [stage.scores[0].double().nan_to_num() for stage in trace.stages if stage.scores], trace


def as_another(change: Change, another: Change, method: Method = bench.METHOD) -> None:
    """The method scores the changed model as `autograd` scores the other one, and a note says so."""
    model, handles = changed(change)
    with tiny.attached(handles):
        scores, trace = scores_of(model, method)
    assert any("'autograd' ran instead" in note for note in trace.notes), trace.notes
    expected, plain = scores_of(changed(another)[0], replace(method, saliency="autograd"))
    assert bench.kept(trace) == bench.kept(plain), "other tokens are kept"
    assert all(map(bench.near, scores, expected))


def same_tokens(change: Change, another: Change, name: str) -> None:
    """The method keeps of the changed model what it keeps of the other one, and takes both apart."""
    method = methods.find(name)(retention=0.5)
    traces = [scores_of(changed(way)[0], method)[1] for way in (change, another)]
    assert bench.kept(traces[0]) == bench.kept(traces[1]), "other tokens are kept"
    assert not traces[0].notes


def doubled(_module: Any, _args: Any, output: Any) -> Any:
    return (2 * output[0], *output[1:])


def on_attention(layer: Any) -> None:
    layer.self_attn.register_forward_hook(doubled)


def replaced_forward(layer: Any) -> None:
    run = layer.self_attn.forward
    layer.self_attn.forward = lambda *args, **kwargs: doubled(None, None, run(*args, **kwargs))


class DoubledAttention(LlamaAttention):
    """A class of the user's own."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return doubled(None, None, super().forward(*args, **kwargs))


def own_class(layer: Any) -> None:
    layer.self_attn.__class__ = DoubledAttention


def on_all_modules(layer: Any) -> Any:
    if layer.self_attn.layer_idx == 0:
        return register_module_forward_hook(
            lambda module, args, output: doubled(module, args, output) if isinstance(module, LlamaAttention) else None
        )
    return None


def doubled_weights(layer: Any) -> None:
    layer.self_attn.o_proj.weight.data.mul_(2)


def added_to_norm(layer: Any) -> None:
    layer.input_layernorm.register_forward_hook(lambda _module, _args, output: output + 0.3)


def added_by_bias(layer: Any) -> None:
    for name in ("q_proj", "k_proj", "v_proj"):
        project = getattr(layer.self_attn, name)
        project.bias = nn.Parameter(0.3 * project.weight.detach().sum(dim=1))


def rectified(layer: Any) -> None:
    layer.self_attn.v_proj.register_forward_hook(lambda _module, _args, output: output.relu())


class Rectified(nn.Linear):
    """A value projection of the user's own class that is not affine."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


def rectified_class(layer: Any) -> None:
    layer.self_attn.v_proj.__class__ = Rectified


def rectified_sequence(layer: Any) -> None:
    layer.self_attn.v_proj = nn.Sequential(layer.self_attn.v_proj, nn.ReLU())


def centred(layer: Any) -> None:
    layer.mlp.down_proj.register_forward_hook(lambda _module, _args, output: output - output.mean(1, keepdim=True))


def slower(layer: Any) -> None:
    layer.mlp.register_full_backward_hook(lambda _module, slopes, _: tuple(0.5 * slope for slope in slopes))


AUTOGRAD = "`autograd` runs instead, and the trace says why"

# The oracle is a model without hooks whose weights do the same, or autograd on the same layer.
for _title, _change, _another in (
    ("A forward hook on `self_attn`", on_attention, doubled_weights),
    ("`self_attn.forward` is replaced", replaced_forward, doubled_weights),
    ("`self_attn` is of a class of the user's own", own_class, doubled_weights),
    ("A forward hook on all modules of the process", on_all_modules, doubled_weights),
    ("A hook that adds to the first norm", added_to_norm, added_by_bias),
    ("A hook on `v_proj` that is not affine", rectified, rectified),
    ("A `v_proj` of a class of the user's own that is not affine", rectified_class, rectified),
    ("A `v_proj` with a ReLU behind it", rectified_sequence, rectified),
    ("A hook in the FFN that mixes tokens", centred, centred),
    ("A backward hook in the FFN that changes gradients", slower, slower),
):
    GROUP.works(f"{_title}: `trio`", partial(as_another, _change, _another), says=AUTOGRAD)


@GROUP.works("torch's own hooks, such as those of `FlopCounterMode`")
def counted(model, one, trace):
    with FlopCounterMode(display=False):
        output = bench.forward(model, one)
    assert not trace.notes
    return output


def compiled_forward(layer: Any) -> None:
    layer.forward = torch.compile(layer.forward, backend="eager")
    layer.self_attn.forward = torch.compile(layer.self_attn.forward, backend="eager")


def compiled_module(layer: Any) -> None:
    layer.self_attn = torch.compile(layer.self_attn, backend="eager")


for _title, _change in (
    ("`layer.forward = torch.compile(layer.forward)`, and so for `self_attn`", compiled_forward),
    ("`layer.self_attn = torch.compile(layer.self_attn)`", compiled_module),
):

    @GROUP.works(_title)
    def compiled_parts(change: Change = _change) -> None:
        """The layer is what it was, so methods take it apart."""
        for name in ("trio", "fastv"):
            same_tokens(change, lambda _layer: None, name)


for _name in ("fastv", "fitprune", "dart", "pact"):
    GROUP.works(
        f"A hook that adds to the first norm: `{_name}`", partial(same_tokens, added_to_norm, added_by_bias, _name)
    )


def mixing(layer: Any) -> None:
    project = layer.self_attn.q_proj
    project.register_forward_hook(lambda _module, _args, output: output - output.mean(1, keepdim=True))


@GROUP.works("A hook on `q_proj` that mixes tokens: `fastv`")
def mixed_queries() -> None:
    """The oracle is the model's own map of attention."""
    model, one = changed(mixing)[0], bench.sample()
    attention = bench.forward(model, one, output_attentions=True).attentions[1][0].mean(dim=0)[-1]
    _, trace = scores_of(model, methods.find("fastv")(retention=0.5))
    best = attention[tiny.visual_rows(one)].topk(len(bench.kept(trace)[0])).indices.sort().values.tolist()
    assert bench.kept(trace)[0] == best, "other tokens are kept"


def pre_hook(layer: Any) -> None:
    layer.self_attn.register_forward_pre_hook(
        lambda _module, args, kwargs: (args, {**kwargs, "hidden_states": 2 * kwargs["hidden_states"]}), with_kwargs=True
    )


def before_all_modules(layer: Any) -> Any:
    return register_module_forward_pre_hook(lambda *_: None) if layer.self_attn.layer_idx == 0 else None


for _title, _change in (
    ("A pre-hook on `self_attn`", pre_hook),
    ("`self_attn.forward` is replaced", replaced_forward),
    ("`self_attn` is of a class of the user's own", own_class),
    ("A pre-hook on all modules of the process", before_all_modules),
):

    @GROUP.refused(f"{_title}: `fastv`")
    def refused(change: Change = _change) -> None:
        model, handles = changed(change)
        with tiny.attached(handles), prune(model, "fastv", retention=0.5):
            bench.forward(model, bench.sample())
