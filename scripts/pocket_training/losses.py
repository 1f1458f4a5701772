"""What the two phases minimise: the tower's loss and the decoder's loss."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration

from pocket_training.checkpoint import VISUAL_TOKENS, VOCABULARY
from pocket_training.packing import Packing, found_at, layer_share
from trio_profile.inputs.pocket.scenes import PROPERTIES, VALUES

_BEFORE = [VOCABULARY[word] for word in ("<s>", "user", ":")]


class Labels(nn.Module):
    """Linear heads that read each patch's properties, and those of the whole picture. Training discards them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch_heads = nn.ModuleList(nn.Linear(width, len(VALUES[of]) + 1) for of in PROPERTIES)
        self.picture_heads = nn.ModuleList(nn.Linear(width, len(VALUES[of])) for of in PROPERTIES)


def see_loss(
    model: LlavaForConditionalGeneration, labels: Labels, pixels: Tensor, truth: Tensor
) -> tuple[Tensor, dict[str, float]]:
    """The loss of the first phase, and by property the share of the things' patches that are named right.

    The loss has three parts. Each patch names its thing's properties. The CLS token names the shares in which the
    values occur. A patch's projection is the sum of the embeddings of its properties' words; the embeddings are not
    trained.

    truth: [B, V, 3], see `patch_labels`.
    """
    hidden = model.model.vision_tower(pixels).last_hidden_state
    projected = model.model.multi_modal_projector(hidden[:, 1:]).float()
    words: Tensor = model.get_input_embeddings().weight.detach()  # pyright: ignore[reportAssignmentType, reportCallIssue]
    things = truth[..., 0] > 0
    weight = torch.where(things, 1.0, 0.2).flatten()
    target, loss, right = torch.zeros_like(projected[things]), torch.zeros(()), {}
    for k, (of, head, whole) in enumerate(zip(PROPERTIES, labels.patch_heads, labels.picture_heads, strict=True)):
        named = head(hidden[:, 1:]).float()
        each = F.cross_entropy(named.flatten(0, 1), truth[..., k].flatten(), reduction="none")
        shares = F.one_hot(truth[..., k], len(VALUES[of]) + 1)[..., 1:].float().sum(dim=1)
        shares = shares / shares.sum(dim=1, keepdim=True)
        loss = loss + (each * weight).sum() / weight.sum() + F.cross_entropy(whole(hidden[:, 0]).float(), shares)
        right[of] = (named.argmax(dim=-1) == truth[..., k])[things].float().mean().item()
        ids = torch.tensor([VOCABULARY[value] for value in VALUES[of]], device=truth.device)
        target = target + words[ids[truth[..., k][things] - 1]]
    return loss + (projected[things] - target).square().sum(dim=-1).mean(), right


def answer_loss(
    model: Any,
    features: Tensor,
    places: Tensor,
    texts: Tensor,
    found: Tensor,
    *,
    ending: bool,
    late: bool = False,
    deep: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The loss of the second phase, and [hops] the share that is right.

    The loss is the mean cross-entropy of what is to be found at each hop. If prompts have an ending, the answer counts
    too, and the token after it. The last share is then that of the answer itself.

    features: [B, n, D] of the tower.
    places: [B, n] where on the picture they lie.
    texts: [B, Q, T], see `question_ids`.
    found: [B, Q, hops] ids of what is to be found.
    late: the words of the last hop see no picture, so that nothing is asked of them.
    deep: weight of the same loss at the readouts of the layers after each hop's share.
    """
    b, q, t = texts.shape
    hops, device = found.shape[2], texts.device
    prefix = len(_BEFORE) + places.shape[1]
    out = model.model.language_model(
        **_packed_inputs(model, features, places, texts),
        use_cache=False,
        output_hidden_states=deep > 0,
        packing=Packing(prefix, q, t),
    )
    at = found_at(hops - late) + [t - 2] * ending
    rows = (torch.arange(q, device=device)[:, None] * t + prefix + torch.tensor(at, device=device)).flatten()
    truth = torch.cat([found[..., : hops - late], *[found[..., -1:]] * ending], dim=2).flatten()
    logits = model.lm_head(out.last_hidden_state[:, rows]).float().flatten(0, 1)
    loss = F.cross_entropy(logits, truth)
    if ending:
        ends = torch.arange(q, device=device) * t + prefix + t - 1
        over = model.lm_head(out.last_hidden_state[:, ends]).float().flatten(0, 1)
        loss = loss + 0.1 * F.cross_entropy(over, torch.full((len(over),), VOCABULARY["</s>"], device=device))
    if deep:
        hop = torch.arange(len(at), device=device).repeat(b * q)
        inner = out.hidden_states[1:-1]
        for readout_loss in _readout_losses(model, inner, rows, hop, truth):
            loss = loss + deep / len(inner) * readout_loss
    right = (logits.argmax(dim=-1) == truth).float().reshape(-1, len(at)).mean(dim=0)
    return loss, torch.cat([right[: hops - 1], right[-1:]])


def _packed_inputs(model: Any, features: Tensor, places: Tensor, texts: Tensor) -> dict[str, Tensor]:
    """The decoder's inputs: the prefix with the picture, then the questions. Every question continues the prefix."""
    b, q, t = texts.shape
    device = texts.device
    embed, before = model.get_input_embeddings(), torch.tensor(_BEFORE, device=device)
    visual = model.model.multi_modal_projector(features)
    embeds = torch.cat([embed(before).expand(b, -1, -1), visual.float(), embed(texts.flatten(1))], dim=1)
    positions = torch.cat(
        [
            torch.arange(len(_BEFORE), device=device).expand(b, -1),
            places + len(_BEFORE),
            (torch.arange(t, device=device) + len(_BEFORE) + VISUAL_TOKENS).repeat(b, q),
        ],
        dim=1,
    )
    return {"inputs_embeds": embeds, "position_ids": positions}


def _readout_losses(model: Any, inner: Sequence[Tensor], rows: Tensor, hop: Tensor, truth: Tensor) -> Iterator[Tensor]:
    """The loss at the readout of each inner layer. A hop counts from the end of its share of the layers on.

    inner: hidden states after each layer but the last.
    rows: supervised rows.
    hop: [B · Q · rows] the hop that each row belongs to.
    truth: [B · Q · rows] ids.
    """
    norm = model.model.language_model.norm
    for depth, hidden in enumerate(inner, 1):
        counted = (hop + 1) * layer_share(len(inner) + 1) <= depth
        readout = model.lm_head(norm(hidden[:, rows].flatten(0, 1)[counted])).float()
        if len(readout):
            yield F.cross_entropy(readout, truth[counted])
