"""Flash attention's contract, on a CPU: transformers' own un-padding around kernels written in plain torch.

The library hands a flash kernel no masks with four dimensions: it un-pads by a [batch, keys] mask, takes causality from
the order of what is left, and mistakes position ids with gaps for packed sequences.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedModel,
    modeling_flash_attention_utils,
)
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import flash_attention_mask

from tests.core import tiny
from tests.core.models.test_families import LAYERS, METHOD, TOKENS, check, windowed
from tests.core.test_pruning import batches, check_second_turn
from trio_core import UnsupportedInput, prune

NAME = "flash_on_cpu"


def one_sequence(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: bool,
    softmax_scale: float,
    window_size: tuple[int, int] = (-1, -1),
    **_,
) -> Tensor:
    """[Q, H, X] queries over [K, H', X] keys; the last query stands at the last key."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = torch.einsum("qhx,khx->hqk", query, key) * softmax_scale
    every, behind = torch.ones(scores.shape[1:], dtype=torch.bool), scores.shape[2] - scores.shape[1]
    if causal:
        scores = scores.masked_fill(every.triu(behind + 1), -torch.inf)
    if window_size[0] >= 0:
        scores = scores.masked_fill(every.tril(behind - window_size[0] - 1), -torch.inf)
    return torch.einsum("hqk,khx->qhx", scores.softmax(dim=-1), value)


def flash(query: Tensor, key: Tensor, value: Tensor, **options) -> Tensor:
    return torch.stack([one_sequence(*parts, **options) for parts in zip(query, key, value, strict=True)])


def flash_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    window_size: tuple[int, int] = (-1, -1),
    **options,
) -> Tensor:
    options |= {"window_size": window_size}  # named above, since transformers reads the signature
    queries = query.split(cu_seqlens_q.diff().tolist())
    keys, values = (part.split(cu_seqlens_k.diff().tolist()) for part in (key, value))
    return torch.cat([one_sequence(*parts, **options) for parts in zip(queries, keys, values, strict=True)])


@pytest.fixture(autouse=True)
def plain_kernels(monkeypatch) -> None:
    AttentionInterface.register(NAME, flash_attention_forward)
    AttentionMaskInterface.register(NAME, flash_attention_mask)
    library = modeling_flash_attention_utils
    kernels = flash, flash_varlen, None, library._pad_input, library._unpad_input
    monkeypatch.setattr(library, "_lazy_imports", lambda *_, **__: kernels)

    def packed(*_) -> None:
        raise AssertionError("position ids with gaps were taken for packed sequences")

    monkeypatch.setattr(library, "_prepare_from_posids", packed)


def named(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """A copy that calls its attention so; none of those can be installed here."""
    model = copy.deepcopy(model)
    model.config.get_text_config()._attn_implementation = name
    return model


@pytest.mark.parametrize("name", ["flash_attention_2", "kernels-community/vllm-flash-attn3"])
def test_each_version_by_its_name(name, monkeypatch):
    monkeypatch.setitem(AttentionInterface._global_mapping, name, flash_attention_forward)
    monkeypatch.setitem(AttentionMaskInterface._global_mapping, name, flash_attention_mask)
    samples = [tiny.sample("llava", "large"), tiny.sample("llava", "small", after=30, seed=1)]
    check("llava", named(tiny.model("llava"), name), samples, dense=tiny.model("llava"))


class TestWindow:
    """The kernel counts a window over the keys it is handed; the mask of other attention counts dropped ones too."""

    def test_that_is_never_full_does_nothing(self):
        one = tiny.sample("gemma3")
        check("gemma3", windowed("gemma3", NAME, one["input_ids"].shape[1] + TOKENS - 1), [one])

    @pytest.mark.parametrize("outgrown_by", ["the prompt", "a new token"])
    def test_that_is_outgrown_is_refused_with_the_way_out(self, outgrown_by):
        one = tiny.sample("gemma3")
        length = one["input_ids"].shape[1] + (outgrown_by == "a new token")
        model = windowed("gemma3", NAME, length - 1)
        says = rf"^a sliding window of {length - 1} tokens in a sequence of {length}: .* sdpa or eager$"
        with pytest.raises(UnsupportedInput, match=says), prune(model, METHOD):
            tiny.generate(model, one, 3)
        with prune(model, "random", retention=1.0):
            tiny.generate(model, one, 3)


@pytest.mark.parametrize("axes", [3, 4])
def test_only_the_axis_of_the_text_tells_packed_documents_apart(axes):
    """Of four axes the first one is the text's. Without it, a layer gets no position ids."""
    one = tiny.sample("qwen2_5_vl")
    model: Any = tiny.model("qwen2_5_vl", NAME)
    positions, _ = model.model.get_rope_index(one["input_ids"], one["mm_token_type_ids"], one["image_grid_thw"])
    text = torch.arange(positions.shape[-1])[None, None]
    with torch.no_grad(), prune(model, METHOD) as trace:
        model(**one, position_ids=torch.cat([text, positions]) if axes == 4 else positions)
    assert len(trace.stages) == len(LAYERS)


@tiny.one_or_three_axes
def test_padded_and_unequal_batches(family):
    model = tiny.model(family, NAME)
    for name in ("left padding", "unequal spans without padding", "a large picture beside a long text"):
        check(family, model, batches(family)[name], dense=tiny.model(family))
    check_second_turn(model, family, tiny.model(family))
