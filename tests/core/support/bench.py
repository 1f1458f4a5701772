"""What the setups share: a model to spoil, a sample, and checks against a physically shortened sequence."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.models import test_families
from tests.core.models.test_families import stages_of
from trio_core import Trio, prune
from trio_core.methods.method import Method
from trio_core.trace import Trace

Inputs = dict[str, Tensor]

LAYERS = (1, 3, 4)
METHOD = Trio(retention=0.5, layers=LAYERS)
NEW_TOKENS = 5


def model(family: str = "llava", attention: str | None = None) -> PreTrainedModel:
    """A toy model of its own for the setup, which may change it."""
    return copy.deepcopy(tiny.model(family, attention))


def sample(size: str = "large", **options: int) -> Inputs:
    """A prompt for LLaVA; the large one has two pictures of 16 tokens, with a word between them."""
    return tiny.sample("llava", size, **options)


def generate(model: Any, one: Inputs, **options: Any) -> Any:
    """Greedy generation with the logits of each new token, unless the options say otherwise."""
    return tiny.generate(model, one, NEW_TOKENS, **{"suppress_tokens": None, **options})


def forward(model: Callable[..., Any], one: Inputs, **options: Any) -> Any:
    """One forward without gradients. Options replace inputs; None leaves one out."""
    with torch.no_grad():
        return model(**{name: value for name, value in {**one, **options}.items() if value is not None})


@cache
def plain_kept() -> tuple[list[int], ...]:
    """What METHOD keeps at each stage on the plain model."""
    with prune(tiny.model("llava"), METHOD) as trace:
        forward(tiny.model("llava"), sample())
    return kept(trace)


@cache
def dense_logits() -> Tensor:
    """The plain model's logits without pruning."""
    return forward(tiny.model("llava"), sample()).logits


def kept(trace: Trace, row: int = 0) -> tuple[list[int], ...]:
    """What a sample kept at each stage."""
    return tuple(stage.kept[row].tolist() for stage in trace.stages)


# --- checks ----------------------------------------------------------------------------------------------------------


def dropped(trace: Trace, row: int = 0, method: Method = METHOD) -> None:
    """Each stage of the method ran, and tokens were dropped. TRIO leaves default stages out that would cost more."""
    ran, layers = [stage.layer for stage in trace.stages], method.layers or method.default_layers(trace.num_layers)
    if isinstance(method, Trio) and not method.layers:
        layers = [layer for layer in layers if layer in ran]
    assert ran and ran == [*layers], "a stage did not run"
    counts = [trace.visual_tokens[row], *(len(stage.kept[row]) for stage in trace.stages)]
    assert counts == sorted(counts, reverse=True) and counts[-1] < counts[0], "nothing was dropped"
    assert trace.realised_retention < 1


def shortened(trace: Trace, one: Inputs, written: Sequence[int] = (), row: int = 0, plain: Any = None) -> Tensor:
    """[S', V]: the logits of the physically shortened sequence, of the prompt and of each written token.

    plain: the model whose weights are used; the toy LLaVA unless told.
    """
    plain = plain if plain is not None else tiny.model("llava")
    stages = stages_of(trace, one, row, one["input_ids"].shape[1] + len(written))
    return test_families.shortened(plain, one, written, stages)[1]


def rows_left(trace: Trace, one: Inputs, logits: Tensor, row: int = 0, side: str = "left") -> Tensor:
    """[S', V]: the rows of a sample's logits [S, V] whose tokens are left. All other rows must be NaN, and only these.

    row: of the sample in the batch. side: where the batch is padded.
    """
    padding = len(logits) - one["input_ids"].shape[1]
    left = stages_of(trace, one, row)[trace.stages[-1].layer] + (padding if side == "left" else 0)
    dropped = torch.ones(len(logits), dtype=torch.bool).index_fill(0, left, False)
    assert padding >= 0 and torch.equal(logits.isnan().any(dim=-1), dropped), "a token that is left has no logits"
    assert logits[dropped].isnan().all(), "a dropped token has logits"
    assert torch.equal(trace.places[row].cpu(), left), "the trace names other places"
    return logits[left]


def layer_by_layer(model: Any, one: Inputs, trace: Trace) -> Tensor:
    """[1, S', V] logits of the model's own layers, called one after another on hidden states that are cut by hand.

    Each layer's hooks run, and gradients flow.
    """
    stages = stages_of(trace, one)
    decoder = model.model.language_model
    features = torch.cat(list(model.model.get_image_features(one["pixel_values"], return_dict=True).pooler_output))
    hidden = decoder.embed_tokens(one["input_ids"])
    visual = (one["input_ids"] == model.config.image_token_id)[..., None]
    hidden = hidden.masked_scatter(visual, features.to(hidden.dtype))
    places = torch.arange(hidden.shape[1])
    for index, layer in enumerate(decoder.layers):
        if index in stages:
            left = torch.isin(places, stages[index])
            places, hidden = places[left], hidden[:, left]
        causal = torch.ones(len(places), len(places), dtype=torch.bool).tril()[None, None]
        hidden = layer(
            hidden,
            attention_mask=torch.zeros(causal.shape).masked_fill(~causal, torch.finfo(torch.float32).min),
            position_ids=places[None],
            position_embeddings=decoder.rotary_emb(hidden, places[None]),
        )
    return model.lm_head(decoder.norm(hidden))


def near(actual: Tensor, expected: Tensor, share: float = 1e-4) -> bool:
    """Whether two logits differ by no more than a share of the largest one. Both have the same rows of NaN."""
    actual, bound = actual.float(), share * expected.nan_to_num().abs().max().item()
    return actual.shape == expected.shape and torch.allclose(
        actual.double(), expected.double(), rtol=0, atol=bound, equal_nan=True
    )


def prefill_is_right(
    trace: Trace,
    one: Inputs,
    logits: Tensor,
    *,
    plain: Any = None,
    same: bool = True,
    share: float = 1e-4,
    method: Method = METHOD,
) -> None:
    """The prompt's logits [1, S', V] are those of the shortened sequence.

    same: the plain model keeps the same tokens. share: how far the logits may be off.
    """
    dropped(trace, method=method)
    if same:
        assert kept(trace) == plain_kept(), "the plain model keeps other tokens"
    left = rows_left(trace, one, logits[0])
    assert near(left, shortened(trace, one, plain=plain), share), "the logits are not the shortened sequence's"


def text_is_right(trace: Trace, one: Inputs, output: Any, row: int = 0, plain: Any = None, prompt: int = 0) -> None:
    """Each new token's logits are those of the shortened sequence. prompt: padded width, where a batch was padded."""
    dropped(trace, row)
    written = output.sequences[row, prompt or one["input_ids"].shape[1] :].tolist()
    assert len(output.logits) == len(written) >= 2, "nothing was decoded"
    steps_are_right(trace, one, [seen[row] for seen in output.logits], written[:-1], row, plain)


def steps_are_right(
    trace: Trace, one: Inputs, seen: Sequence[Tensor], fed: Sequence[int], row: int = 0, plain: Any = None
) -> None:
    """The last logits of a prompt and those of later steps, each [V], are the shortened sequence's.

    seen: of the last steps, or of all. fed: the tokens that the steps were given.
    """
    expected = shortened(trace, one, fed, row, plain)[-len(seen) :]
    assert all(near(logits, wanted) for logits, wanted in zip(seen, expected, strict=True)), (
        "a new token's logits are not the shortened sequence's"
    )


def dense_is_back(model: Callable[..., Any]) -> None:
    """Outside the context the model computes what it did before."""
    assert near(forward(model, sample()).logits[0], dense_logits()[0]), "the dense model's logits changed"
