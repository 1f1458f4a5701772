"""Hooks and replaced forwards inside a decoder layer.

The oracle is a model without hooks whose weights do the same, where there is one. Elsewhere it is
`saliency="autograd"`, which runs the whole layer with everything that hangs on it.
"""

from collections.abc import Callable
from dataclasses import replace
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

GROUP = Group("Hooks inside a decoder layer")
Change = Callable[[Any], Any]
"""Changes a decoder layer in place. It may return the handle of a hook on all modules."""


def layers_of(model: Any) -> list[Any]:
    return list(model.model.language_model.layers)


def changed(change: Change) -> tuple[Any, list[Any]]:
    """A model whose layers are changed, and the handles to remove."""
    model = bench.model(attention="eager")
    return model, [handle for layer in layers_of(model) if hasattr(handle := change(layer), "remove")]


def scores_of(model: Any, method: Method) -> tuple[list[Tensor], tuple[list[int], ...], tuple[str, ...]]:
    """The scores and the kept tokens of each stage, and the notes."""
    with prune(model, method) as trace:
        bench.forward(model, bench.sample())
    bench.dropped(trace)
    return [stage.scores[0].double() for stage in trace.stages if stage.scores], bench.kept(trace), trace.notes


def as_another(change: Change, another: Change, method: Method, *, told: bool = True) -> str:
    """The method scores the changed model as the other one. told: a note says that autograd ran instead."""
    model, handles = changed(change)
    with tiny.attached(handles):
        scores, kept, notes = scores_of(model, method)
    assert any("'autograd' ran instead" in note for note in notes) == told, notes
    expected, expected_kept, _ = scores_of(changed(another)[0], replace(method, saliency="autograd"))
    assert kept == expected_kept, "other tokens are kept"
    assert all(bench.near(a.nan_to_num(), b.nan_to_num()) for a, b in zip(scores, expected, strict=True))
    return f"the scores are those of {{}}{'; the trace says: ' + notes[0] if told else ''}"


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


TRIO = bench.METHOD
FOLDED = "a model without hooks whose weights do the same"
WHOLE = 'saliency="autograd" on the same layer'

for _title, _change, _another, _oracle in (
    ("A forward hook on `self_attn`", on_attention, doubled_weights, FOLDED),
    ("`self_attn.forward` is replaced", replaced_forward, doubled_weights, FOLDED),
    ("`self_attn` is of a class of the user's own", own_class, doubled_weights, FOLDED),
    ("A forward hook on all modules of the process", on_all_modules, doubled_weights, FOLDED),
    ("A hook that adds to the first norm", added_to_norm, added_by_bias, FOLDED),
    ("A hook on `v_proj` that is not affine", rectified, rectified, WHOLE),
    ("A `v_proj` of a class of the user's own that is not affine", rectified_class, rectified, WHOLE),
    ("A `v_proj` with a ReLU behind it", rectified_sequence, rectified, WHOLE),
    ("A hook in the FFN that mixes tokens", centred, centred, WHOLE),
    ("A backward hook in the FFN that changes gradients", slower, slower, WHOLE),
):

    @GROUP.works(f"{_title}: `trio`")
    def row(change: Change = _change, another: Change = _another, oracle: str = _oracle) -> str:
        return as_another(change, another, TRIO).format(oracle)


@GROUP.works("A hook that adds to the first norm: `trio` with `compiled`")
def compiled() -> str:
    return as_another(added_to_norm, added_by_bias, replace(TRIO, saliency="compiled")).format(FOLDED)


@GROUP.works("torch's own hooks, such as those of `FlopCounterMode`")
def counted() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, TRIO) as trace, FlopCounterMode(display=False):
        bench.forward(model, one)
    assert bench.kept(trace) == bench.plain_kept() and not trace.notes
    return f"{bench.dropped(trace)}; `tail` runs, and the plain model's tokens are kept."


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
    def compiled_parts(change: Change = _change) -> str:
        """The layer is what it was, so methods take it apart."""
        for name in ("trio", "fastv"):
            method, traces = methods.find(name)(retention=0.5), []
            for model in (changed(change)[0], bench.model(attention="eager")):
                with prune(model, method) as trace:
                    bench.forward(model, bench.sample())
                traces.append(trace)
            assert bench.kept(traces[0]) == bench.kept(traces[1]) and not traces[0].notes
        return "trio and fastv keep the plain model's tokens, and `tail` runs."


def same_as_by_bias(name: str) -> str:
    method = methods.find(name)(retention=0.5)
    traces = []
    for change in (added_to_norm, added_by_bias):
        model, _ = changed(change)
        with prune(model, method) as trace:
            bench.forward(model, bench.sample())
        traces.append(trace)
    assert bench.kept(traces[0]) == bench.kept(traces[1]), "other tokens are kept"
    counts = bench.dropped(traces[0], [stage.layer for stage in traces[0].stages])
    return f"{counts}; the same tokens as in {FOLDED}."


for _name in ("fastv", "fitprune", "dart", "pact"):

    @GROUP.works(f"A hook that adds to the first norm: `{_name}`")
    def norm_row(name: str = _name) -> str:
        return same_as_by_bias(name)


@GROUP.works("A hook on `q_proj` that mixes tokens: `fastv`")
def mixed_queries() -> str:
    """The oracle is the model's own map of attention."""
    model, _ = changed(
        lambda layer: (
            layer.self_attn.q_proj.register_forward_hook(
                lambda _module, _args, output: output - output.mean(1, keepdim=True)
            )
            and None
        )
    )
    one = bench.sample()
    attention = bench.forward(model, one, output_attentions=True).attentions[1][0].mean(dim=0)[-1]
    with prune(model, "fastv", retention=0.5) as trace:
        bench.forward(model, one)
    places = (one["input_ids"][0] == model.config.image_token_id).nonzero()[:, 0]
    best = attention[places].topk(len(bench.kept(trace)[0])).indices.sort().values.tolist()
    assert bench.kept(trace)[0] == best, "other tokens are kept"
    return f"{bench.dropped(trace, (2,))}; they are those that the model's own map of attention ranks first."


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
    def refused(change: Change = _change) -> str:
        model, handles = changed(change)
        with tiny.attached(handles), prune(model, "fastv", retention=0.5):
            bench.forward(model, bench.sample())
