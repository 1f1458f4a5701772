"""Ways to call the model, and what a user may do to it while the context is open."""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.core import tiny
from tests.core.models.test_families import shortened, stages_of
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Calls and changes of the model")


@GROUP.works("`torch.inference_mode()`")
def inference() -> None:
    model, one = bench.model(), bench.sample()
    with torch.inference_mode(), prune(model, bench.METHOD) as trace:
        logits = model(**one).logits
    bench.prefill_is_right(trace, one, logits.clone())


@GROUP.works("`return_dict=False`")
def tuples(model, one, trace):
    bench.prefill_is_right(trace, one, bench.forward(model, one, return_dict=False)[0])


@GROUP.works("Arguments by position")
def by_position(model, one):
    with torch.no_grad():
        return model(one["input_ids"], one["pixel_values"], one["attention_mask"])


def places_at(trace: Trace, one: bench.Inputs, index: int) -> torch.Tensor:
    """The places that layer `index` (0-based) ran on."""
    every, stages = torch.arange(one["input_ids"].shape[1]), stages_of(trace, one)
    return next((left for layer, left in reversed(stages.items()) if layer <= index), every)


@GROUP.works("`output_hidden_states=True`", says="rows of dropped tokens are NaN")
def hidden_states(model, one, trace):
    output = bench.forward(model, one, output_hidden_states=True)
    run, _ = shortened(tiny.model("llava"), one, (), stages_of(trace, one))
    assert len(output.hidden_states) == len(run) + 1
    for index, (hidden, right) in enumerate(zip(output.hidden_states[1:-1], run, strict=False)):
        computed = ~hidden[0].isnan().any(dim=-1)
        assert torch.equal(computed.nonzero().squeeze(1), places_at(trace, one, index)), "a row at another place"
        assert bench.near(hidden[0, computed], right), "another hidden state"
    return output


@GROUP.works(
    "`output_attentions=True` with eager attention",
    attention="eager",
    says="each layer's attention map has the prompt's places: dropped keys get 0, dropped queries are NaN",
)
def attentions(model, one, trace):
    output, length = bench.forward(model, one, output_attentions=True), one["input_ids"].shape[1]
    for index, weights in enumerate(output.attentions):
        left = places_at(trace, one, index)
        assert weights.shape[2:] == (length, length)
        assert torch.allclose(weights[0][:, left][:, :, left].sum(dim=-1), torch.tensor(1.0)), "weight at another place"
        assert int(weights.isnan().any(dim=-1)[0, 0].sum()) == length - len(left), "a dropped token attends"
    return output


@GROUP.works("The score of an answer, `logits[:, P-1:-1]` behind a prompt of P tokens, as evaluation harnesses take it")
def scored_answer(model, one, trace):
    logits = bench.forward(model, one).logits[0]
    prompt = one["input_ids"].shape[1] - 4
    answer = one["input_ids"][0, prompt:, None]
    right = bench.shortened(trace, one)[-5:-1].log_softmax(dim=-1)
    assert bench.near(logits[prompt - 1 : -1].log_softmax(dim=-1).gather(1, answer), right.gather(1, answer))


@GROUP.works(
    "`logits_to_keep=20`: places of the picture are among them",
    says="the rows are the last 20 of the prompt's logits, NaN at dropped tokens",
)
def logits_of_the_picture(model, one):
    last, whole = bench.forward(model, one, logits_to_keep=20).logits, bench.forward(model, one)
    assert last.shape[1] == 20 and bench.near(last, whole.logits[:, -20:])
    return whole


@GROUP.works("`logits_to_keep=3`")
def last_logits(model, one, trace):
    assert bench.near(bench.forward(model, one, logits_to_keep=3).logits[0], bench.shortened(trace, one)[-3:])


GROUP.refused(
    "`logits_to_keep=` a tensor of places in the prompt", partial(bench.forward, logits_to_keep=torch.tensor([19]))
)
GROUP.refused("`model.forward(...)` called directly", lambda model, one: bench.forward(model.forward, one))
GROUP.refused("`model.model(...)` called directly", lambda model, one: bench.forward(model.model, one))


@GROUP.refused("`KeyboardInterrupt` in the vision tower; then `model.model(...)` is called with another prompt")
def interrupted_in_tower(model, one):
    with tiny.interrupted(model.get_submodule("model.vision_tower")):
        bench.forward(model, one)
    bench.forward(model.get_submodule("model"), bench.sample(seed=1))


@GROUP.works("`KeyboardInterrupt` in a decoder layer; then the model is called again in the same context")
def interrupted_in_layer(model, one):
    with tiny.interrupted(model.get_submodule("model.language_model.layers.2")):
        bench.forward(model, bench.sample(seed=1))
    return bench.forward(model, one)


@GROUP.refused("Another model that shares the decoder is called")
def shared_decoder(model, one):
    other: Any = bench.model()
    other.model.language_model = model.model.language_model
    bench.forward(other, one)


@GROUP.works("Another model is called inside the context")
def another_model(model, one):
    output = bench.forward(model, one)
    bench.dense_is_back(bench.model())
    return output


@GROUP.refused("A second `prune` of the same model, inside the first")
def twice(model):
    with prune(model, "grid", retention=0.5):
        pass


@GROUP.works("Two contexts, one after the other")
def in_turn() -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, "grid", retention=0.5):
        bench.forward(model, one)
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, one).logits
    bench.prefill_is_right(trace, one, logits)
    bench.dense_is_back(model)


GROUP.works(
    "`torch.nn.DataParallel(model)` on a CPU; `model` is passed to `prune`, the wrapper is called",
    lambda model, one: bench.forward(nn.DataParallel(model), one),
)


@GROUP.refused("`torch.nn.DataParallel(model)` is passed to `prune`")
def data_parallel_given() -> None:
    given: Any = nn.DataParallel(bench.model())
    with prune(given, bench.METHOD):
        pass


@GROUP.refused("A decoder without layers, `num_hidden_layers: 0`")
def no_layers() -> None:
    with prune(tiny.variant("llava", text={"num_hidden_layers": 0}), "trio", retention=0.5):
        pass


@GROUP.refused("An attention kernel that we do not know")
def unknown_attention() -> None:
    model = bench.model()
    model.config.get_text_config()._attn_implementation = "sage_attention"
    with prune(model, bench.METHOD):
        pass


@GROUP.works("`model.set_attn_implementation` inside the context, from sdpa to eager", attention="sdpa")
def other_attention(model, one):
    bench.forward(model, one)
    model.set_attn_implementation("eager")
    return bench.forward(model, one)


def fewer_layers(layers: Any) -> None:
    del layers[4:]


def replaced_layer(layers: Any) -> None:
    layers[3] = tiny.model("llava").get_submodule("model.language_model.layers.3")


def swapped_layers(layers: Any) -> None:
    layers[2], layers[3] = layers[3], layers[2]


def layers_changed(change: Callable[[Any], None]) -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        bench.forward(model, one)
        change(model.get_submodule("model.language_model.layers"))
        bench.forward(model, one)


for _title, _change in (
    ("The decoder's last layers are cut off inside the context", fewer_layers),
    ("A decoder layer is replaced inside the context", replaced_layer),
    ("Layers 3 and 4 change places inside the context", swapped_layers),
):
    GROUP.refused(_title, partial(layers_changed, _change))


@GROUP.refused("`config.num_hidden_layers` is lowered inside the context")
def fewer_layers_by_config(model, one):
    model.config.get_text_config().num_hidden_layers = 4
    bench.forward(model, one)


def output_hook(layer: nn.Module) -> None:
    layer.register_forward_hook(lambda _module, _args, output: 2 * output)


def input_hook(layer: nn.Module) -> None:
    layer.register_forward_pre_hook(lambda _module, args: (2 * args[0], *args[1:]))


def hooked(hook: Callable[[nn.Module], None], *, inside: bool) -> None:
    """Layers 2 and 5 have hooks: the same layers and hooks on a sequence that is shortened by hand are the oracle."""
    model, one = bench.model(), bench.sample()
    layers = [model.get_submodule(f"model.language_model.layers.{index}") for index in (1, 4)]
    if not inside:
        for layer in layers:
            hook(layer)
    with prune(model, bench.METHOD) as trace:
        if inside:
            for layer in layers:
                hook(layer)
        logits = bench.forward(model, one).logits
    bench.dropped(trace)
    with torch.no_grad():
        right = bench.layer_by_layer(model, one, trace)
    assert bench.near(bench.rows_left(trace, one, logits[0]), right[0])


_hooks = "A user's forward hooks that change the layers' output, set"
GROUP.works(f"{_hooks} before the context", partial(hooked, output_hook, inside=False))
GROUP.works(f"{_hooks} inside the context", partial(hooked, output_hook, inside=True))
GROUP.works(
    "A user's pre-hooks that change the layers' input, set before the context",
    partial(hooked, input_hook, inside=False),
)


@GROUP.works("`model.save_pretrained` inside the context")
def saved(model, one):
    bench.forward(model, one)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        loaded = type(model).from_pretrained(directory).eval()
    loaded.set_attn_implementation({"text_config": "sdpa", "vision_config": "eager"})
    bench.dense_is_back(loaded)
