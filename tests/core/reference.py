"""A decoder written out by hand, for one unpadded sample: no hooks, no library masks, no library cache.

It builds the shorter sequence physically: after a pruning layer the kept rows are selected, and from there on the
positions, the causal order and each layer's own list of keys and values follow from those rows. Of the model, only the
weights are used. L layers · S tokens · D width · H heads · X head width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, silu
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core.trace import Trace

Stages = Mapping[int, Tensor]
"""After layer l (1-based), the places [S'] in the unpruned sample that are left."""


@dataclass
class Run:
    """prefill[i]: [S_i, D], layer i's output. decode[step][i]: [D]. lengths[i]: keys that layer i holds at the end."""

    prefill: list[Tensor]
    decode: list[list[Tensor]]
    lengths: list[int]


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

    def layer(self, index: int, hidden: Tensor, positions: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """One layer on new tokens [S, D]; `keys` and `values` hold what came before, and grow by these tokens."""

        def project(name: str, inputs: Tensor) -> Tensor:
            weights = self.weights
            return linear(inputs, weights[f"layers.{index}.{name}.weight"], weights.get(f"layers.{index}.{name}.bias"))

        def heads(name: str, inputs: Tensor) -> Tensor:
            return project(name, inputs).unflatten(-1, (-1, self.head_dim)).transpose(0, 1)

        normed = self.norm(hidden, f"layers.{index}.input_layernorm")
        query = self.rotate(heads("self_attn.q_proj", normed), positions)
        keys.append(self.rotate(heads("self_attn.k_proj", normed), positions))
        values.append(heads("self_attn.v_proj", normed))
        key, value = (torch.cat(part, dim=1).repeat_interleave(self.groups, dim=0) for part in (keys, values))
        scores = query @ key.transpose(1, 2) / self.head_dim**0.5
        new, known = scores.shape[1:]
        ahead = torch.arange(known)[None, :] > torch.arange(known - new, known)[:, None]
        attended = scores.masked_fill(ahead, -torch.inf).softmax(dim=-1) @ value
        hidden = hidden + project("self_attn.o_proj", attended.transpose(0, 1).flatten(1))
        normed = self.norm(hidden, f"layers.{index}.post_attention_layernorm")
        gated = silu(project("mlp.gate_proj", normed)) * project("mlp.up_proj", normed)
        return hidden + project("mlp.down_proj", gated)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.norm(hidden, "norm") @ self.head.T


@torch.no_grad()
def run(
    model: PreTrainedModel,
    one: dict[str, Tensor],
    stages: Stages,
    tokens: Sequence[int] = (),
    compact: bool = False,
) -> Run:
    """Prefill of one unpadded sample, then one decode step for each of `tokens`."""
    decoder = Decoder(model)
    hidden, original = embeddings(model, one), position_ids(one)
    rows = torch.arange(len(hidden))
    keys: list[list[Tensor]] = [[] for _ in range(decoder.config.num_hidden_layers)]
    values: list[list[Tensor]] = [[] for _ in keys]
    prefill: list[Tensor] = []
    for index in range(len(keys)):
        if index in stages:
            left = torch.isin(rows, stages[index])
            rows, hidden = rows[left], hidden[left]
        positions = torch.arange(len(rows)) if compact else original[..., rows]
        hidden = decoder.layer(index, hidden, positions, keys[index], values[index])
        prefill.append(hidden)
    decode = []
    for step, token in enumerate(tokens):
        hidden = decoder.weights["embed_tokens.weight"][[token]]
        position = original.max() + 1 + step
        outputs = []
        for index in range(len(keys)):
            mine = torch.tensor(held(keys[index])) if compact else position
            everywhere = mine.expand(*original.shape[:-1], 1)
            hidden = decoder.layer(index, hidden, everywhere, keys[index], values[index])
            outputs.append(hidden[0])
        decode.append(outputs)
    return Run(prefill, decode, [held(part) for part in keys])


def held(keys: list[Tensor]) -> int:
    return sum(part.shape[1] for part in keys)


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
