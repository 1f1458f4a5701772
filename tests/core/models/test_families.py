"""Every family with a picture or a video going through it: pruned, it is its own layers on a shorter sequence.

The oracle knows nothing of our hooks and frames. It listens to a dense run without a cache, and then calls the model's
own layers on the kept rows, the masks and rotary embeddings of that run taken at those rows by plain indexing. So the
sequence is shortened physically. What a decode step makes is the same for a prompt that the new tokens are written
behind.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core import Trio, prune
from trio_core.methods.divprune import DivPrune
from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.trace import Trace

LAYERS = (1, 3, 4)
TOKENS = 5
CLOSE = 2e-5
"""Of a largest value: what adding in another order makes of float32 in six layers."""
METHOD = Trio(retention=0.5, layers=LAYERS)


EARLY = DivPrune(retention=0.4)


@contextmanager
def listening(model: PreTrainedModel) -> Iterator[list[list[tuple[Tensor, dict[str, Any], Tensor]]]]:
    """What goes into each layer and what comes out while the context is open: [call][layer]."""
    calls: list[list[tuple[Tensor, dict[str, Any], Tensor]]] = []
    layers = adapter_for(model).layers

    def hear(layer: torch.nn.Module, args: Any, kwargs: dict[str, Any], output: Tensor) -> None:
        if layer is layers[0]:
            calls.append([])
        calls[-1].append((args[0], kwargs, output))

    with tiny.attached(layer.register_forward_hook(hear, with_kwargs=True) for layer in layers):
        yield calls


def dense_layers(model: PreTrainedModel, one: dict[str, Tensor]) -> list[tuple[Tensor, dict[str, Any], Tensor]]:
    """What goes into each layer and what comes out, in a dense run without a cache."""
    with torch.no_grad(), listening(model) as calls:
        model(**one, use_cache=False)
    return calls[0]


def extended(model: PreTrainedModel, one: dict[str, Tensor], tokens: Sequence[int]) -> dict[str, Tensor]:
    """The sample with new tokens behind it, as the model's own `generate` would describe them."""
    new = torch.tensor([tokens], dtype=torch.long)
    of_new = {
        "input_ids": new,
        "attention_mask": torch.ones_like(new),
        "mm_token_type_ids": torch.zeros_like(new),
        "token_type_ids": torch.zeros_like(new),
        **adapter_for(model).extra_inputs(new, prompt_length=0),
    }
    return {k: torch.cat([v, of_new[k].to(v.dtype)], dim=1) if k in of_new else v for k, v in one.items()}


@dataclass(frozen=True)
class Step:
    """One layer of a walk over S' of S rows.

    before: [S0, D], what comes out of the layer before, and the places [S0] of its rows.
    hidden: [1, S', D], what enters here after the cut, and its places [S'].
    run: the layer as a function of its input, with the masks and rotary embeddings of these rows.
    rotary: its cosines and sines, [1, S', E]. output: [S', D].
    attention: [H, S', S'], the layer's own map; None for a kernel that makes none.
    """

    before: tuple[Tensor, Tensor]
    hidden: Tensor
    places: Tensor
    run: Callable[[Tensor], Tensor]
    rotary: tuple[Tensor, Tensor]
    output: Tensor
    attention: Tensor | None


Left = dict[int, Tensor] | dict[int, tuple[Tensor, Tensor, Tensor]]
"""After layer l: the places that stay; or these, and of them some with what stands there from now on."""


@torch.no_grad()
def walk(model: PreTrainedModel, one: dict[str, Tensor], left: Left, compact: bool = False) -> list[Step]:
    """The model's own layers over a sequence that is cut on the way."""
    adapter, heard, steps = adapter_for(model), dense_layers(model, one), []
    hidden, rows = heard[0][0], torch.arange(one["input_ids"].shape[1])
    shared: dict[str, Any] = {}  # keys and values that Gemma 4's layers share, of this walk alone
    for index, (entered, kwargs, _) in enumerate(heard):
        if index:
            # What the decoder adds between its layers, if anything: Qwen3-VL's DeepStack.
            hidden = hidden + (entered - heard[index - 1][2])[:, rows]
        before = hidden[0], rows
        if index in left:
            stays, *exchanged = left[index] if isinstance(left[index], tuple) else (left[index],)
            still = torch.isin(rows, stays)
            hidden, rows = hidden[:, still].clone(), rows[still]
            if exchanged:
                hidden[0, torch.isin(rows, exchanged[0])] = exchanged[1]
        mask, positions = kwargs["attention_mask"], torch.arange(len(rows)) if compact else rows
        cut = {
            "attention_mask": None if mask is None else mask[:, :, rows][..., rows],
            "position_embeddings": tuple(part[:, positions] for part in kwargs["position_embeddings"]),
        }
        if "shared_kv_states" in kwargs:
            cut["shared_kv_states"] = shared
        run, maps = partial(adapter.layers[index].forward, **cut), []
        attention = adapter.layers[index].get_submodule("self_attn")
        with tiny.attached([attention.register_forward_hook(lambda *call, to=maps: to.append(call[-1][1]))]):
            output = run(hidden)
        own_map = None if maps[0] is None else maps[0][0]
        steps.append(Step(before, hidden, rows, run, cut["position_embeddings"], output[0], own_map))
        hidden = output
    return steps


def shortened(
    model: PreTrainedModel, one: dict[str, Tensor], tokens: Sequence[int], left: Left, compact: bool = False
) -> tuple[list[Tensor], Tensor]:
    """Each layer's output [S', D] and the logits, for a sample with `tokens` written behind it.

    left: after layer l only these places stay, of the new tokens too.
    """
    steps = walk(model, extended(model, one, tokens), left, compact)
    with torch.no_grad():
        logits = adapter_for(model).readout(steps[-1].output[None])[0]
    return [step.output for step in steps], logits


def stages_of(trace: Trace, one: dict[str, Tensor], sample: int = 0, length: int | None = None) -> dict[int, Tensor]:
    """After layer l, the places that are left of an unpadded sample, ascending.

    sample: its number in the batch. length: of the sample with its new tokens, if there are any.
    """
    visual, every = tiny.visual_rows(one), torch.arange(length or one["input_ids"].shape[1])
    text = every[~torch.isin(every, visual)]
    return {stage.layer: torch.cat([text, visual[stage.kept[sample].cpu()]]).sort().values for stage in trace.stages}


def apart(actual: Tensor, expected: Tensor) -> float:
    """The largest difference relative to the largest value."""
    assert actual.shape == expected.shape
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def holds_in_order(rows: Tensor, wanted: Tensor) -> bool:
    """Whether the wanted rows [K, D] are among `rows` [S, D], in order; others are padding or fill up the batch."""
    place = 0
    for row in wanted:
        while place < len(rows) and apart(rows[place], row) > CLOSE:
            place += 1
        if place == len(rows):
            return False
        place += 1
    return True


def check(
    family: str,
    model: PreTrainedModel,
    samples: list[dict[str, Tensor]],
    method: Method = METHOD,
    dense: PreTrainedModel | None = None,
    side: str = "left",
) -> Trace:
    """Prefill and greedy decode in a batch: each sample must be what the oracle makes of it alone.

    dense: the model whose layers are the oracle: the pruned one, unless another one is given.
    """
    inputs = tiny.batch(samples, side)
    with prune(model, method) as trace, listening(model) as calls:
        output = tiny.generate(model, inputs, TOKENS)
    planned = method.layers or method.schedule(len(tiny.visual_rows(samples[0])), tiny.NUM_LAYERS).layers
    assert tuple(stage.layer for stage in trace.stages) == planned
    assert len(calls) == TOKENS
    logits = torch.stack(output.logits, dim=1)
    for b, one in enumerate(samples):
        new = output.sequences[b, -TOKENS:].tolist()
        left = stages_of(trace, one, b, one["input_ids"].shape[1] + TOKENS - 1)
        outputs, expected = shortened(dense or model, one, new[:-1], left, method.positions == "compact")
        for index, wanted in enumerate(outputs):
            assert holds_in_order(calls[0][index][2][b], wanted[: 1 - TOKENS]), (
                f"sample {b}, prefill, layer {index + 1}"
            )
            for step in range(1, TOKENS):
                made = calls[step][index][2][b, 0]
                assert apart(made, wanted[step - TOKENS]) < CLOSE, f"sample {b}, step {step}, layer {index + 1}"
        assert apart(logits[b], expected[-TOKENS:]) < CLOSE
        expected[:, [tiny.IMAGE, tiny.VIDEO]] = -torch.inf
        assert expected[-TOKENS:].argmax(dim=-1).tolist() == new
    return trace


@tiny.every_kernel
def test_a_padded_batch_with_unequal_pictures(family, attention):
    """The tokens leave within the decoder, or before it."""
    for method in (METHOD, EARLY):
        check(family, tiny.model(family, attention), tiny.pair(family), method)


def without_token_types(after: int = 9, size: str = "large") -> dict[str, Tensor]:
    one = tiny.sample("paligemma", size, after=after)
    return {name: value for name, value in one.items() if name != "token_type_ids"}


@pytest.mark.parametrize("attention", tiny.fast_first(tiny.ATTENTION, "sdpa"))
def test_paligemma_without_token_types(attention):
    """Under sdpa there is no mask then, and every token sees all; under eager it looks back. Saliency follows."""
    model = tiny.model("paligemma", attention)
    samples = [without_token_types(after=26, size="small"), without_token_types()]
    inputs = tiny.batch(samples)
    assert inputs["attention_mask"].all()
    with torch.no_grad(), prune(model, METHOD) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    assert (calls[0][0][1]["attention_mask"] is None) == (attention == "sdpa")
    for b, one in enumerate(samples):
        left = stages_of(trace, one, b, one["input_ids"].shape[1])
        for index, wanted in enumerate(shortened(model, one, (), left)[0]):
            assert holds_in_order(calls[0][index][2][b], wanted)


def windowed(family: str, attention: str, window: int) -> PreTrainedModel:
    """The family's toy whose sliding layers look back over `window` tokens."""
    return tiny.variant(family, attention, text={"sliding_window": window})


@pytest.mark.parametrize("method", [METHOD, pytest.param(EARLY, marks=tiny.SLOW)], ids=["decoder", "encoder"])
@pytest.mark.parametrize(
    ("family", "attention"),
    tiny.fast_first([("gemma3", "eager"), ("gemma3", "sdpa"), ("paligemma2", "eager")], ("gemma3", "sdpa")),
)
@pytest.mark.parametrize("window", tiny.fast_first([8, 24, 47], 24))
def test_windows_that_slide_look_back_over_the_sequence_as_it_was(family, attention, window, method):
    """8 slides within the prompt's words, 24 over the picture, 47 only while the model writes."""
    model, one = windowed(family, attention, window), tiny.sample(family)
    assert window < one["input_ids"].shape[1] + TOKENS
    check(family, model, [one], method)
    check(family, model, tiny.pair(family), method)
