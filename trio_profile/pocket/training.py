"""How the pocket model was trained, in three phases that a CPU can afford.

1. *See.* The vision tower and the projector learn to name what each patch belongs to, in the decoder's own word
   embeddings.
2. *Answer.* The tower stands still and its features are kept; the decoder learns from a part of each picture's things, more
   and more of them, since looking things up is found soon among few and late among many. Many questions share one
   picture: its tokens are a prefix that they all read, and none reads another.
3. *Settle.* All tokens of each picture, as the model will meet them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, LlavaForConditionalGeneration

from trio_profile.pocket.checkpoint import SPECIALS, TEMPLATE, VISUAL_TOKENS, VOCABULARY, processor, untrained
from trio_profile.pocket.grammar import ask
from trio_profile.pocket.scenes import PROPERTIES, VALUES, Scene, render, scene

_PREFIX = [VOCABULARY[word] for word in ("<s>", "user", ":")]
_SUFFIX = [VOCABULARY[word] for word in ("assistant", ":")]


@dataclass(frozen=True)
class Packing:
    """A row of the batch: a prefix of the picture, and then so many questions of one length that read only it."""

    prefix: int
    questions: int
    length: int


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float,
    packing: Packing,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of packed questions: [B, heads, prefix + questions · length, d] → [B, the same, heads, d].

    The prefix is causal; a question reads the prefix and, causally, itself. Nothing is computed for the rest.
    """
    p, shape = packing.prefix, (packing.questions, packing.length)
    query = query * scaling
    # Written out: the CPU's fused kernel takes several times as long backward.
    picture = _softmax(_causal(query[:, :, :p] @ key[:, :, :p].mT)) @ value[:, :, :p]
    asked, keys, values = (x[:, :, p:].unflatten(2, shape) for x in (query, key, value))
    over_picture = asked.flatten(2, 3) @ key[:, :, :p].mT
    own = _causal(asked @ keys.mT).flatten(2, 3)
    of_picture, of_own = _softmax(torch.cat([over_picture, own], dim=-1)).split([p, packing.length], dim=-1)
    questions = of_picture @ value[:, :, :p] + (of_own.unflatten(2, shape) @ values).flatten(2, 3)
    return torch.cat([picture, questions], dim=2).transpose(1, 2), None


def _causal(scores: Tensor) -> Tensor:
    n = scores.shape[-1]
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1), -torch.inf)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)


AttentionInterface.register("packed", packed_attention)
AttentionMaskInterface.register("packed", lambda *_, **__: None)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, but the machine. steps: of the three phases.

    pictures: rendered once, for all phases. deep: weight of the answers read off every layer, which fades out within the
    second phase. things, ground: of each picture's things and of its other tokens, how many the decoder sees at the start
    and at the end of that phase.
    """

    seed: int = 0
    layers: int = 16
    hidden: int = 128
    pictures: int = 6000
    steps: tuple[int, int, int] = (600, 4000, 400)
    batch: int = 16
    questions: int = 12
    rate: float = 2e-3
    deep: float = 0.3


@dataclass
class Progress:
    """What training says of itself after a step."""

    phase: str
    step: int
    steps: int
    loss: float
    accuracy: dict[str, float]


def optimizers(modules: Sequence[nn.Module], rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside, Adam for embeddings, heads, convolutions and everything that is no matrix."""
    outside = {id(p) for m in modules for e in m.modules() if isinstance(e, nn.Embedding) for p in e.parameters()}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for module in modules:
        for name, p in module.named_parameters():
            inside = p.ndim == 2 and id(p) not in outside and "head" not in name
            (matrices if inside else others).append(p)
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def set_rate(opts: Sequence[torch.optim.Optimizer], rate: float) -> None:
    for o in opts:
        for group in o.param_groups:
            group["lr"] = rate


def apply(opts: Sequence[torch.optim.Optimizer], parameters: Sequence[Tensor]) -> None:
    nn.utils.clip_grad_norm_(parameters, 1.0)
    for o in opts:
        o.step()
        o.zero_grad(set_to_none=True)


class Labels(nn.Module):
    """What the tower is asked of each patch, and of the whole picture: heads that training throws away."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch_head = nn.Linear(width, sum(len(VALUES[of]) + 1 for of in PROPERTIES))
        self.picture_head = nn.Linear(width, len(VALUES["colour"]) * len(VALUES["shape"]))


def patch_labels(scenes: Sequence[Scene]) -> Tensor:
    """[B, V, 3] index of each property's value at each patch, 0 where there is no thing."""
    labels = torch.zeros(len(scenes), VISUAL_TOKENS, len(PROPERTIES), dtype=torch.long)
    for b, each in enumerate(scenes):
        for thing in each.things:
            labels[b, list(thing.patches())] = torch.tensor([VALUES[of].index(thing[of]) + 1 for of in PROPERTIES])
    return labels


def picture_labels(scenes: Sequence[Scene]) -> Tensor:
    """[B, colours · shapes] 1 where a thing of this colour and shape is in the picture."""
    labels = torch.zeros(len(scenes), len(VALUES["colour"]), len(VALUES["shape"]))
    for b, each in enumerate(scenes):
        for thing in each.things:
            labels[b, VALUES["colour"].index(thing.colour), VALUES["shape"].index(thing.shape)] = 1
    return labels.flatten(1)


def word_table() -> Tensor:
    """Vocabulary ids of each property's values."""


def see(model, recipe, pixels, scenes, rng, watch):
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    embeddings = model.get_input_embeddings().weight.detach()
    labels = Labels(tower.config.hidden_size)
    modules = [tower, projector, labels]
    parameters = [p for m in modules for p in m.parameters()]
    opts = optimizers(modules, recipe.rate)
    ids = [torch.tensor([VOCABULARY[w] for w in VALUES[of]]) for of in PROPERTIES]
    steps = recipe.steps[0]
    for step in range(steps):
        set_rate(opts, recipe.rate * min(1, (step + 1) / 50) * min(1.0, 1.3 * (1 - step / steps) + 0.02))
        chosen = rng.choice(len(scenes), recipe.batch, replace=False)
        some = [scenes[i] for i in chosen]
        truth = patch_labels(some)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = tower(pixels(chosen)).last_hidden_state
            projected = projector(hidden[:, 1:]).float()
            logits = labels.patch_head(hidden[:, 1:]).float()
            seen = labels.picture_head(hidden[:, 0]).float()
        loss = 0
        accs = {}
        things = truth[..., 0] > 0
        weight = torch.where(things, 1.0, 0.2)
        for k, (of, part) in enumerate(zip(PROPERTIES, logits.split([len(VALUES[of]) + 1 for of in PROPERTIES], -1))):
            ce = F.cross_entropy(part.flatten(0, 1), truth[..., k].flatten(), reduction="none")
            loss = loss + (ce * weight.flatten()).sum() / weight.sum()
            accs[of] = (part.argmax(-1) == truth[..., k])[things].float().mean().item()
        target = sum(embeddings[i[truth[..., k][things] - 1]] for k, i in enumerate(ids))
        align = (projected[things] - target).square().sum(-1).mean()
        presence = F.binary_cross_entropy_with_logits(seen, picture_labels(some))
        loss = loss + align + presence
        loss.backward()
        apply(opts, parameters)
        accs |= {"align": align.item(), "presence": presence.item()}
        watch("see", step, steps, loss.item(), accs)


@dataclass
class Batch:
    features: Tensor
    positions: Tensor
    ids: Tensor


def question_ids(text: str, answer: str) -> list[int]:
    return [VOCABULARY[w] for w in text.split()] + _SUFFIX + [VOCABULARY[answer]]


def visible(some: Scene, things: int, share: float, ground: int, rng) -> tuple[tuple, np.ndarray]:
    """Some of a picture's things, and tokens of theirs with some of the ground."""
    n = min(things, len(some.things))
    chosen = [some.things[i] for i in rng.permutation(len(some.things))[:n]]
    mine = np.array([p for t in chosen for p in t.patches()])
    keep = rng.permutation(mine)[: max(1, round(share * len(mine)))]
    all_things = np.array([p for t in some.things for p in t.patches()])
    rest = np.setdiff1d(np.arange(VISUAL_TOKENS), all_things)
    return tuple(chosen), np.sort(np.concatenate([keep, rng.permutation(rest)[:ground]]))


def answers_loss(model, features, places, texts, deep):
    """features [B, n, d_v], places [B, n], texts [B, Q, T] ending with the answer."""
    b, q, t = texts.shape
    embed = model.get_input_embeddings()
    prefix = torch.tensor(_PREFIX)
    with torch.autocast("cpu", torch.bfloat16):
        visual = model.model.multi_modal_projector(features)
        embeds = torch.cat([embed(prefix).expand(b, -1, -1), visual.float(), embed(texts.flatten(1))], dim=1)
        p = len(_PREFIX) + places.shape[1]
        positions = torch.cat(
            [
                torch.arange(len(_PREFIX)).expand(b, -1),
                places + len(_PREFIX),
                (torch.arange(t) + len(_PREFIX) + VISUAL_TOKENS).repeat(b, q),
            ],
            dim=1,
        )
        out = model.model.language_model(
            inputs_embeds=embeds,
            position_ids=positions,
            use_cache=False,
            output_hidden_states=deep > 0,
            packing=Packing(p, q, t),
        )
        rows = torch.arange(q) * t + p + t - 2
        final = out.last_hidden_state
        logits = model.lm_head(final[:, rows]).float()
        end = model.lm_head(final[:, rows + 1]).float()
        truth = texts[:, :, -1].flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), truth)
        total = loss + 0.1 * F.cross_entropy(end.flatten(0, 1), torch.full_like(truth, VOCABULARY["</s>"]))
        if deep:
            layers = out.hidden_states[1:-1]
            weights = torch.arange(1, len(layers) + 1) / len(layers)
            norm = model.model.language_model.norm
            for w, h in zip(weights / weights.sum(), layers):
                total = total + deep * w * F.cross_entropy(model.lm_head(norm(h[:, rows])).float().flatten(0, 1), truth)
    return total, (logits.flatten(0, 1).argmax(-1) == truth).float().mean().item()
