"""Many questions after one picture: the picture's tokens are a prefix that all questions read."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from pocket_training.checkpoint import VOCABULARY
from trio_profile.inputs.pocket.grammar import ENDING, MOST_HOPS, Question

_AFTER = [VOCABULARY[word] for word in ("assistant", ":")]
_LONGEST = 64
"""More tokens than any question has."""


@dataclass(frozen=True)
class Packing:
    """The layout of a row of the batch: a prefix that holds the picture, and then questions that read only the prefix.

    prefix: tokens of the prefix.
    questions: number of questions.
    length: tokens of each question.
    """

    prefix: int
    questions: int
    length: int


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: None,
    *,
    scaling: float,
    packing: Packing,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Attention of packed questions: [B, heads, n, d] → [B, n, heads, d], with n = prefix + questions · length.

    The prefix is causal. A question reads the prefix and, causally, itself. No question reads another question.
    """
    p, shape = packing.prefix, (packing.questions, packing.length)
    query = query * scaling
    # Written out, because the backward of the CPU's fused kernel takes several times as long.
    picture = _softmax(_causal(query[:, :, :p] @ key[:, :, :p].mT)) @ value[:, :, :p]
    asked, keys, values = (x[:, :, p:].unflatten(2, shape) for x in (query, key, value))
    over_picture = asked.flatten(2, 3) @ key[:, :, :p].mT
    if (gate := getattr(module, "gate", None)) is not None:
        over_picture = over_picture + gate[: packing.length].repeat(packing.questions)[:, None].to(over_picture.dtype)
    own = _causal(asked @ keys.mT).flatten(2, 3)
    of_picture, of_own = _softmax(torch.cat([over_picture, own], dim=-1)).split([p, packing.length], dim=-1)
    questions = of_picture @ value[:, :, :p] + (of_own.unflatten(2, shape) @ values).flatten(2, 3)
    return torch.cat([picture, questions], dim=2).transpose(1, 2), None


def blindfold(model: Any, layers: int, hops: int = 1, *, late: bool = False) -> None:
    """Keep the questions' words from seeing the picture in some layers.

    The layers are divided between the hops. The words of a hop do not see the picture before their own share of the
    layers begins, so they meet there what the hop before has found.

    layers: the number of layers, at the start of each hop's share, in which its words do not see the picture; with 0
        all words see it in all layers.
    hops: hops of the questions.
    late: the words of the last hop never see the picture, so that the end of the prompt has to look.
    """
    stack = model.model.language_model.layers
    at = torch.arange(_LONGEST)
    hop = (at[:, None] > torch.tensor(found_at(hops - 1), dtype=torch.long)).sum(dim=1)
    never = (hop == hops - 1) & (at <= found_at(hops)[-1]) & late
    for number, layer in enumerate(stack):
        attention = layer.self_attn
        if not hasattr(attention, "gate"):
            # A buffer is an input of a compiled layer; another tensor would be compiled in as a constant.
            attention.register_buffer("gate", torch.zeros(_LONGEST, device=model.device), persistent=False)
        blind = never | ((number < hop * layer_share(len(stack)) + layers) & (layers > 0))
        attention.gate.copy_(torch.where(blind, -torch.inf, 0.0))


def layer_share(layers: int) -> int:
    """The number of layers that each hop has for itself."""
    return layers // MOST_HOPS


def plain_attention(
    _module: nn.Module, query: Tensor, key: Tensor, value: Tensor, _attention_mask: None, *, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The tower's attention, written out for the same reason: [B, heads, n, d] → [B, n, heads, d]."""
    return (_softmax((query * scaling) @ key.mT) @ value).transpose(1, 2), None


def _causal(scores: Tensor) -> Tensor:
    n = scores.shape[-1]
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1), -torch.inf)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)


for _name, _attention in (("packed", packed_attention), ("plain", plain_attention)):
    AttentionInterface.register(_name, _attention)
    AttentionMaskInterface.register(_name, lambda *_, **__: None)


def question_ids(question: Question, *, ending: bool = True) -> list[int]:
    """The token ids of a prompt after its picture, with the answer as the last one.

    ending: False leaves out the prompt's ending and the answer.
    """
    words = question.text.split()
    if not ending:
        return [VOCABULARY[word] for word in words[: -len(ENDING.split())]]
    return [*(VOCABULARY[word] for word in words), *_AFTER, VOCABULARY[question.answer]]


def found_at(hops: int) -> list[int]:
    """The places in `question_ids` that name the property to look for at each hop: "at the red square by *digit*"."""
    return [5 + 5 * hop for hop in range(hops)]
