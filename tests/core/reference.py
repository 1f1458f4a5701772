"""A decoder written out by hand, for one unpadded sample: no hooks, no library masks, no library cache.

It builds the shorter sequence physically: after a pruning layer the kept rows are selected, and from there on the
positions and the causal order follow from those rows. What a decode step makes is the same for a prompt that the new
tokens are written behind. Of the model, only the weights are used. S tokens · D width · H heads · X head width.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear, silu
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core.trace import Trace

Stages = Mapping[int, Tensor]
"""After layer l (1-based), the places [S'] in the unpruned sample that are left."""


class Decoder:
    """The language model's layers, norm and head, as formulas over its weights."""

    def __init__(self, model: PreTrainedModel):
        self.config = model.config.get_text_config()
        self.weights = dict(model.get_submodule("model.language_model").named_parameters())
        self.head = model.get_submodule("lm_head").weight
        self.heads = self.config.num_attention_heads
        self.groups = self.heads // self.config.num_key_value_heads
        self.head_dim = self.config.hidden_size // self.heads
        self.sections = self.config.rope_parameters.get("mrope_section")

    def norm(self, hidden: Tensor, name: str) -> Tensor:
        scale = hidden.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps
        return hidden * scale.rsqrt() * self.weights[f"{name}.weight"]

    def rotate(self, heads_HSX: Tensor, positions: Tensor) -> Tensor:
        """Rotary embedding at positions [S], or [3, S] where each part of the frequencies follows its own axis."""
        half = self.head_dim // 2
        frequency = self.config.rope_parameters["rope_theta"] ** -(torch.arange(half) / half)
        if self.sections is None:
            angle = positions[:, None] * frequency
        else:
            axis = torch.tensor([axis for axis, size in enumerate(self.sections) for _ in range(size)])
            angle = positions[axis].T * frequency
        cos, sin = angle.cos(), angle.sin()
        first, second = heads_HSX[..., :half], heads_HSX[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def layer(self, index: int, hidden: Tensor, positions: Tensor) -> Tensor:
        """One layer on a whole sequence [S, D]."""

        def project(name: str, inputs: Tensor) -> Tensor:
            weights = self.weights
            return linear(inputs, weights[f"layers.{index}.{name}.weight"], weights.get(f"layers.{index}.{name}.bias"))

        def heads(name: str, inputs: Tensor) -> Tensor:
            return project(name, inputs).unflatten(-1, (-1, self.head_dim)).transpose(0, 1)

        normed = self.norm(hidden, f"layers.{index}.input_layernorm")
        query, key = (self.rotate(heads(f"self_attn.{x}_proj", normed), positions) for x in "qk")
        key, value = (part.repeat_interleave(self.groups, dim=0) for part in (key, heads("self_attn.v_proj", normed)))
        scores = query @ key.transpose(1, 2) / self.head_dim**0.5
        ahead = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        attended = scores.masked_fill(ahead, -torch.inf).softmax(dim=-1) @ value
        hidden = hidden + project("self_attn.o_proj", attended.transpose(0, 1).flatten(1))
        normed = self.norm(hidden, f"layers.{index}.post_attention_layernorm")
        gated = silu(project("mlp.gate_proj", normed)) * project("mlp.up_proj", normed)
        return hidden + project("mlp.down_proj", gated)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.norm(hidden, "norm") @ self.head.T


@torch.no_grad()
def shortened(
    model: PreTrainedModel, one: dict[str, Tensor], tokens: Sequence[int], stages: Stages, compact: bool = False
) -> tuple[list[Tensor], Tensor]:
    """Each layer's output [S', D] for an unpadded sample with `tokens` written behind it, and the logits [S', V]."""
    decoder, original = Decoder(model), position_ids(one)
    hidden = torch.cat([embeddings(model, one), decoder.weights["embed_tokens.weight"][list(tokens)]])
    after = original.max() + 1 + torch.arange(len(tokens))
    original = torch.cat([original, after.expand(*original.shape[:-1], -1)], dim=-1)
    rows, prompt = torch.arange(len(hidden)), len(hidden) - len(tokens)
    outputs = []
    for index in range(decoder.config.num_hidden_layers):
        if index in stages:
            left = torch.isin(rows, stages[index]) | (rows >= prompt)
            rows, hidden = rows[left], hidden[left]
        hidden = decoder.layer(index, hidden, torch.arange(len(rows)) if compact else original[..., rows])
        outputs.append(hidden)
    return outputs, decoder.logits(hidden)


def embeddings(model: PreTrainedModel, one: dict[str, Tensor]) -> Tensor:
    """[S, D]: what enters the decoder, the picture's features in their places."""
    caught: list[Tensor] = []

    def catch(_module: object, _args: object, kwargs: dict[str, Tensor]) -> None:
        caught.append(kwargs["inputs_embeds"][0])

    decoder = model.get_submodule("model.language_model")
    with tiny.attached([decoder.register_forward_pre_hook(catch, with_kwargs=True)]):
        model(**one, use_cache=False)
    return caught[0]


def position_ids(one: dict[str, Tensor]) -> Tensor:
    """[S], or [3, S] for Qwen2.5-VL: a picture's tokens lie on a grid, and the text goes on past its longer side."""
    ids = one["input_ids"][0].tolist()
    if "image_grid_thw" not in one:
        return torch.arange(len(ids))
    _, height, width = (one["image_grid_thw"][0] // torch.tensor([1, 2, 2])).tolist()
    start = ids.index(tiny.IMAGE)
    grid = [(start, start + row, start + column) for row in range(height) for column in range(width)]
    after = start + max(height, width)
    text = [(after + i,) * 3 for i in range(len(ids) - start - len(grid))]
    return torch.tensor([(i,) * 3 for i in range(start)] + grid + text).T


def stages_of(trace: Trace, one: dict[str, Tensor], sample: int = 0) -> dict[int, Tensor]:
    """After each stage of a trace, the places that are left of one sample of its batch."""
    return {stage.layer: kept_rows(one, stage.kept[sample].cpu()) for stage in trace.stages}


def kept_rows(one: dict[str, Tensor], kept: Tensor) -> Tensor:
    """[S']: the places of the text and of the kept visual tokens in an unpadded sample."""
    visual = tiny.visual_rows(one)
    return torch.cat([(one["input_ids"][0] != tiny.IMAGE).nonzero().squeeze(1), visual[kept]]).sort().values
