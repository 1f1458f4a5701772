"""Ways to call the model, and what a user may do to it while the context is open."""

import tempfile
from typing import Any

import torch
from torch import nn

from tests.core import reference, tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Calls and changes of the model")


def called(attention: str | None = None, **options: Any) -> tuple[Any, Any, bench.Inputs]:
    """A pruned forward with options. Returns its trace, its output, its inputs."""
    model, one = bench.model(attention=attention), bench.sample()
    with prune(model, bench.METHOD) as trace:
        output = bench.forward(model, one, **options)
    return trace, output, one


@GROUP.works("`torch.inference_mode()`")
def inference() -> str:
    model, one = bench.model(), bench.sample()
    with torch.inference_mode(), prune(model, bench.METHOD) as trace:
        logits = model(**one).logits
    return bench.prefill_is_right(trace, one, logits.clone())


@GROUP.works("`return_dict=False`")
def tuples() -> str:
    trace, output, one = called(return_dict=False)
    return bench.prefill_is_right(trace, one, output[0])


@GROUP.works("Arguments by position")
def by_position(model, one):
    with torch.no_grad():
        return model(one["input_ids"], one["pixel_values"], one["attention_mask"]).logits


def places_at(trace: Trace, one: bench.Inputs, index: int) -> torch.Tensor:
    """The places that layer `index` (0-based) ran on."""
    every, stages = torch.arange(one["input_ids"].shape[1]), reference.stages_of(trace, one)
    return next((left for layer, left in reversed(stages.items()) if layer <= index), every)


@GROUP.works("`output_hidden_states=True`")
def hidden_states() -> str:
    trace, output, one = called(output_hidden_states=True)
    said = bench.prefill_is_right(trace, one, output.logits)
    run = reference.run(tiny.model("llava"), one, reference.stages_of(trace, one))
    assert len(output.hidden_states) == len(run.prefill) + 1
    for index, (hidden, right) in enumerate(zip(output.hidden_states[1:-1], run.prefill, strict=False)):
        computed = ~hidden[0].isnan().any(dim=-1)
        assert torch.equal(computed.nonzero().squeeze(1), places_at(trace, one, index)), "a row at another place"
        assert bench.near(hidden[0, computed], right), "another hidden state"
    return (
        f"{said[:-1]}, and so are each layer's hidden states, at the prompt's places; rows of dropped tokens are NaN."
    )


@GROUP.works("`output_attentions=True` with eager attention")
def attentions() -> str:
    trace, output, one = called("eager", output_attentions=True)
    said = bench.prefill_is_right(trace, one, output.logits)
    length = one["input_ids"].shape[1]
    for index, weights in enumerate(output.attentions):
        left = places_at(trace, one, index)
        assert weights.shape[2:] == (length, length)
        assert torch.allclose(weights[0][:, left][:, :, left].sum(dim=-1), torch.tensor(1.0)), "weight at another place"
        assert int(weights.isnan().any(dim=-1)[0, 0].sum()) == length - len(left), "a dropped token attends"
    return (
        f"{said[:-1]}; each layer's attention map has the prompt's places: dropped keys get 0, dropped queries are NaN."
    )


@GROUP.works("The score of an answer, `logits[:, P-1:-1]` behind a prompt of P tokens, as evaluation harnesses take it")
def scored_answer() -> str:
    trace, output, one = called()
    prompt = one["input_ids"].shape[1] - 4
    answer = one["input_ids"][0, prompt:]
    rows = output.logits[0, prompt - 1 : -1].log_softmax(dim=-1)
    right = bench.shortened(trace, one)[0][-5:-1].log_softmax(dim=-1)
    assert bench.near(rows.gather(1, answer[:, None]), right.gather(1, answer[:, None]))
    return f"{bench.dropped(trace)}; the score of 4 tokens is that of the physically shortened sequence."


@GROUP.works("`logits_to_keep=20`: places of the picture are among them")
def logits_of_the_picture() -> str:
    trace, output, one = called(logits_to_keep=20)
    whole = called()[1].logits
    assert output.logits.shape[1] == 20 and bench.near(output.logits, whole[:, -20:])
    bench.rows_left(trace, one, whole[0])
    return f"{bench.dropped(trace)}; the rows are the last 20 of the prompt's logits, NaN at dropped tokens."


@GROUP.works("`logits_to_keep=3`")
def last_logits() -> str:
    trace, output, one = called(logits_to_keep=3)
    assert bench.near(output.logits[0], bench.shortened(trace, one)[0][-3:])
    return f"{bench.dropped(trace)}; the logits are the last three rows of the physically shortened sequence."


@GROUP.refused("`logits_to_keep=` a tensor of places in the prompt")
def chosen_logits() -> str:
    word = 19  # between the two pictures
    model, one = bench.model(), bench.sample()
    with prune(model, "trio", retention=0.9, layers=bench.LAYERS) as trace:
        output = bench.forward(model, one, logits_to_keep=torch.tensor([word]))
    before = int((tiny.visual_rows(one)[trace.stages[-1].kept[0]] < word).sum())
    right = bench.shortened(trace, one)[0][3 + before]
    assert bench.near(output.logits[0, 0], right), "the logits of another token"
    return f"{bench.dropped(trace)}; the logits are those of the token at that place."


GROUP.refused("`model.forward(...)` called directly", lambda model, one: bench.forward(model.forward, one))


GROUP.refused("`model.model(...)` called directly", lambda model, one: bench.forward(model.model, one))


@GROUP.refused("`KeyboardInterrupt` in the vision tower; then `model.model(...)` is called with another prompt")
def interrupted_in_tower(model, one):
    with tiny.interrupted(model.get_submodule("model.vision_tower")):
        bench.forward(model, bench.sample())
    bench.forward(model.get_submodule("model"), bench.sample(seed=1))


@GROUP.works("`KeyboardInterrupt` in a decoder layer; then the model is called again in the same context")
def interrupted_in_layer(model, one):
    with tiny.interrupted(model.get_submodule("model.language_model.layers.2")):
        bench.forward(model, bench.sample(seed=1))
    return bench.forward(model, one).logits


@GROUP.refused("Another model that shares the decoder is called")
def shared_decoder() -> str:
    model, other, one = bench.model(), bench.model(), bench.sample()
    other.model.language_model = model.model.language_model
    with prune(model, bench.METHOD):
        bench.forward(other, one)


@GROUP.works("Another model is called inside the context")
def another_model() -> str:
    model, other, one = bench.model(), bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, one).logits
        assert torch.equal(bench.forward(other, one).logits, bench.dense_logits())
    return bench.prefill_is_right(trace, one, logits)


@GROUP.refused("A second `prune` of the same model, inside the first")
def twice() -> str:
    model = bench.model()
    with prune(model, bench.METHOD), prune(model, "grid", retention=0.5):
        pass


@GROUP.works("Two contexts, one after the other")
def in_turn() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, "grid", retention=0.5):
        bench.forward(model, one)
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, one).logits
    return f"{bench.prefill_is_right(trace, one, logits)} {bench.dense_is_back(model)}"


@GROUP.works("`torch.nn.DataParallel(model)` on a CPU; `model` is passed to `prune`, the wrapper is called")
def data_parallel(model, one):
    return bench.forward(nn.DataParallel(model), one).logits


@GROUP.refused("`torch.nn.DataParallel(model)` is passed to `prune`")
def data_parallel_given() -> str:
    given: Any = nn.DataParallel(bench.model())
    with prune(given, bench.METHOD):
        pass


@GROUP.refused("A decoder without layers, `num_hidden_layers: 0`")
def no_layers() -> str:
    model = tiny.variant("llava", text={"num_hidden_layers": 0})
    with prune(model, "trio", retention=0.5):
        bench.forward(model, bench.sample())


@GROUP.works("`model.set_attn_implementation` inside the context, from sdpa to eager")
def other_attention() -> str:
    model, one = bench.model(attention="sdpa"), bench.sample()
    with prune(model, bench.METHOD) as trace:
        bench.forward(model, one)
        model.set_attn_implementation("eager")
        logits = bench.forward(model, one).logits
    return bench.prefill_is_right(trace, one, logits)


@GROUP.refused("The decoder's last layers are cut off inside the context")
def fewer_layers() -> str:
    model, one = bench.model(), bench.sample()
    decoder: Any = model.get_submodule("model.language_model")
    with prune(model, bench.METHOD):
        bench.forward(model, one)
        decoder.layers = decoder.layers[:4]
        bench.forward(model, one)


@GROUP.refused("`config.num_hidden_layers` is lowered inside the context")
def fewer_layers_by_config(model, one):
    model.config.get_text_config().num_hidden_layers = 4
    bench.forward(model, one)


@GROUP.refused("A decoder layer is replaced inside the context")
def replaced_layer() -> str:
    model, one = bench.model(), bench.sample()
    decoder: Any = model.get_submodule("model.language_model")
    with prune(model, bench.METHOD):
        decoder.layers[3] = bench.model().get_submodule("model.language_model.layers.3")
        bench.forward(model, one)


@GROUP.refused("Layers 3 and 4 change places inside the context")
def swapped_layers() -> str:
    model, one = bench.model(), bench.sample()
    decoder: Any = model.get_submodule("model.language_model")
    with prune(model, bench.METHOD):
        decoder.layers[2], decoder.layers[3] = decoder.layers[3], decoder.layers[2]
        bench.forward(model, one)


def hooked(inside: bool) -> str:
    """Layers 2 and 5 have hooks that double what they put out."""
    model, one = bench.model(), bench.sample()

    def hook() -> None:
        for index in (1, 4):
            layer = model.get_submodule(f"model.language_model.layers.{index}")
            layer.register_forward_hook(lambda _module, _args, output: 2 * output)

    if not inside:
        hook()
    with prune(model, bench.METHOD) as trace:
        if inside:
            hook()
        logits = bench.forward(model, one).logits
    with torch.no_grad():
        right = bench.layer_by_layer(model, one, trace)
    assert bench.near(bench.rows_left(trace, one, logits[0]), right[0])
    return f"{bench.dropped(trace)}; the logits are those of the same layers and hooks on a sequence shortened by hand."


@GROUP.works("A user's forward hooks that change the layers' output, set before the context")
def hooks_before() -> str:
    return hooked(inside=False)


@GROUP.works("A user's forward hooks that change the layers' output, set inside the context")
def hooks_inside() -> str:
    return hooked(inside=True)


@GROUP.works("A user's pre-hooks that change the layers' input, set before the context")
def pre_hooks() -> str:
    model, one = bench.model(), bench.sample()
    for index in (1, 4):
        layer = model.get_submodule(f"model.language_model.layers.{index}")
        layer.register_forward_pre_hook(lambda _module, args: (2 * args[0], *args[1:]))
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(model, one).logits
    with torch.no_grad():
        right = bench.layer_by_layer(model, one, trace)
    assert bench.near(bench.rows_left(trace, one, logits[0]), right[0])
    return f"{bench.dropped(trace)}; the logits are those of the same layers and hooks on a sequence shortened by hand."


@GROUP.works("`model.save_pretrained` inside the context")
def saved() -> str:
    model, one = bench.model(), bench.sample()
    with tempfile.TemporaryDirectory() as directory, prune(model, bench.METHOD) as trace:
        bench.forward(model, one)
        model.save_pretrained(directory)
        loaded = type(model).from_pretrained(directory).eval()
    loaded.set_attn_implementation({"text_config": "sdpa", "vision_config": "eager"})
    return (
        f"{bench.dropped(trace)}. {bench.dense_is_back(loaded).replace('Outside the context', 'In the loaded model')}"
    )
