"""From the inputs of a model's forward to the pictures of each sample. Every refusal of an input stands here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trio_core.engine.cache import check_cache
from trio_core.engine.calls import cache_of, check_model_call
from trio_core.engine.frames import Frame
from trio_core.engine.passes import Setup
from trio_core.errors import UnsupportedInput
from trio_core.methods.method import Method
from trio_core.methods.view import Picture, Video
from trio_core.models.adapter import VideoShape
from trio_core.tensors import MaskBS, to_device

PRUNABLE_ATTENTION = ("eager", "sdpa", "flex_attention")
"""Attention implementations whose masks we cut, beside every kind of flash attention."""
NOT_LABELLED = -100
"""The label of a token that the library's losses leave out."""


@dataclass(frozen=True)
class Prompt:
    """The prompt of a prefill.

    pictures: one for each sample; empty for a prompt without visual tokens.
    lengths[b]: tokens of sample b, padding left out.
    frame: of all tokens.
    text_at_end: how many of the last places have a token of text in every sample. No stage drops these.
    """

    pictures: tuple[Picture, ...]
    lengths: list[int]
    frame: Frame
    text_at_end: int = 0

    @property
    def prunes(self) -> bool:
        """Whether a stage drops tokens of some sample."""
        return any(picture.schedule.budgets[-1] < len(picture.rows) for picture in self.pictures)


def read_prompt(setup: Setup, inputs: dict[str, Any], video_inputs: dict[str, Any], copies: int = 1) -> Prompt:
    """The pictures of a prompt, and what is planned for them.

    inputs: the arguments of the model's forward.
    video_inputs: the arguments that have the videos. copies: how often each of their samples stands in the batch.

    Raises UnsupportedInput for a prompt on which pruning would be wrong.
    """
    input_ids, valid = _ids_and_padding(inputs)
    visual = setup.adapter.visual_tokens(input_ids) & valid
    video_ids = to_device(torch.tensor(setup.adapter.video_ids, dtype=input_ids.dtype), input_ids.device)
    video = torch.isin(input_ids, video_ids) & valid
    marks = {"visual": visual, "valid": valid, "video": video}
    marks |= {"begins": _documents(setup, inputs), "predicting": _predicting(inputs)}
    marks = {name: mask for name, mask in marks.items() if mask is not None}
    # Here the host waits for the device: the places of the pictures and the lengths fix every later shape.
    on_host = dict(zip(marks, torch.stack([*marks.values()]).cpu(), strict=True))
    visual_BS, valid_BS, video_BS = (on_host[name] for name in ("visual", "valid", "video"))
    lengths, frame = valid_BS.sum(dim=1).tolist(), Frame.of_all(valid)
    if not visual_BS.any():
        return Prompt((), lengths, frame)
    shapes = iter(setup.adapter.videos(video_inputs, int(video_BS.sum()) // copies) if video_BS.any() else ())
    videos: tuple[Video, ...] = ()
    pictures, unpadded, text_at_end = [], min(lengths) == input_ids.shape[1], input_ids.shape[1]
    for sample in range(len(input_ids)):
        rows, text_after = _rows(sample, visual_BS[sample], valid_BS[sample])
        videos = videos if sample % copies else _videos(video_BS[sample, rows], shapes, input_ids.device)
        _check_media(setup.method, sample, videos, has_video=bool(video_BS[sample].any()))
        behind = input_ids.shape[1] - 1 - int(rows[-1])
        text_at_end = min(text_at_end, behind if text_after == behind else 0)
        first = int(rows[0]) if unpadded and int(rows[-1] - rows[0]) + 1 == len(rows) else None
        places, number = to_device(rows, input_ids.device), torch.arange(len(rows), device=input_ids.device)
        schedule = setup.schedule(len(rows))
        pictures.append(Picture(places, number, len(rows), text_after, schedule, first=first, videos=videos))
    prompt = Prompt(tuple(pictures), lengths, frame, int(text_at_end))  # a tracer's sizes are tensors
    if prompt.prunes:
        begins = on_host.get("begins") if unpadded else None
        _check_pruned(setup, inputs, begins, on_host.get("predicting"), visual_BS | ~valid_BS)
    return prompt


def _rows(sample: int, visual: Tensor, valid: Tensor) -> tuple[Tensor, int]:
    """[N], the places of the visual tokens of one sample, and how many tokens follow the last of them.

    visual, valid: [S], on the host: True at visual tokens, and False at padding.

    Raises UnsupportedInput for a sample without visual tokens, or without a token behind them.
    """
    if not visual.any():
        raise UnsupportedInput(
            f"sample {sample} of the batch has no visual tokens and others have: run text-only samples in a batch "
            "of their own"
        )
    rows = visual.nonzero().squeeze(1)
    text_after = int(valid[rows[-1] + 1 :].sum())
    if text_after == 0:
        raise UnsupportedInput(
            f"sample {sample} of the batch ends with its picture: pass the text behind it in the same forward"
        )
    return rows, text_after


def _videos(is_video: Tensor, shapes: Iterator[VideoShape], device: torch.device) -> tuple[Video, ...]:
    """The videos of one sample. is_video: [N] on the host. shapes: of this sample's videos and those behind it."""
    number, videos = is_video.nonzero().squeeze(1), []
    while len(number) and (shape := next(shapes, None)):
        frames = number[: shape.frames * shape.frame_tokens].view(shape.frames, shape.frame_tokens)
        videos.append(Video(to_device(frames, device)))
        number = number[shape.tokens :]
    return tuple(videos)


def _check_media(method: Method, sample: int, videos: tuple[Video, ...], *, has_video: bool) -> None:
    """Raise UnsupportedInput where a method is not for what a sample shows.

    has_video: whether the sample has a video, its frames known or not.
    """
    if method.media == "pictures" and has_video:
        raise UnsupportedInput(
            f"sample {sample} of the batch has a video, and method {method.name!r} is for pictures: choose another one"
        )
    if method.media == "videos" and not videos:
        raise UnsupportedInput(
            f"sample {sample} of the batch has no video whose frames are known, and method {method.name!r} is for "
            "videos: give it a video, or choose a method for pictures"
        )


def check_run(setup: Setup, inputs: dict[str, Any]) -> None:
    """Raise UnsupportedInput for an argument, a cache or an attention kernel that pruning cannot handle.

    It reads no tensor.
    """
    check_model_call(inputs)
    if (cache := cache_of(inputs)) is not None:
        check_cache(cache)
    if not is_prunable(attention := setup.adapter.attention):
        raise UnsupportedInput(f"attention {attention!r} was set inside the context: {PRUNE_WITH}")


PRUNE_WITH = "its masks cannot be cut; load the model with eager, sdpa, flex_attention or flash"


def is_prunable(attention: str) -> bool:
    """Whether we can cut the masks of an attention implementation."""
    return attention in PRUNABLE_ATTENTION or ("flash" in attention and "paged" not in attention)


def _ids_and_padding(inputs: dict[str, Any]) -> tuple[Tensor, MaskBS]:
    """The token ids [B, S], and [B, S], False at padding."""
    input_ids, mask = inputs.get("input_ids"), inputs.get("attention_mask")
    if input_ids is None:
        raise UnsupportedInput("the picture is found by its placeholder ids: pass input_ids, not inputs_embeds alone")
    if mask is None:
        return input_ids, torch.ones_like(input_ids, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.shape != input_ids.shape:
        form = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else f"type {type(mask).__name__}"
        raise UnsupportedInput(
            f"attention_mask of {form} and input_ids of shape {tuple(input_ids.shape)}: pass the [batch, tokens] mask"
        )
    return input_ids, mask.to(input_ids.device, torch.bool)


def _documents(setup: Setup, inputs: dict[str, Any]) -> MaskBS | None:
    """[1, S]: True where a flash kernel would see a new document: where a position is not the last one's successor.

    None where it does not look at position ids. It looks in a batch of one, and at the text's axis of several.
    """
    positions, ids = inputs.get("position_ids"), inputs["input_ids"]
    if "flash" not in setup.adapter.attention or len(ids) > 1 or not isinstance(positions, Tensor):
        return None
    if positions.ndim == 1:
        positions = positions[None]
    if positions.ndim == 3:
        if len(positions) < 4:
            return None
        positions = positions[0]
    steps = positions.diff(prepend=positions[:, :1] - 1)
    return (steps != 1).to(ids.device).expand_as(ids)


def _predicting(inputs: dict[str, Any]) -> MaskBS | None:
    """[B, S]: True at the places whose logits predict a labelled token. None without labels for each token."""
    labels, ids = inputs.get("labels"), inputs["input_ids"]
    if not isinstance(labels, Tensor) or labels.shape != ids.shape:
        return None
    return (labels != NOT_LABELLED).to(ids.device).roll(-1, dims=1).index_fill(1, ids.new_tensor([ids.shape[1] - 1]), 0)


def _check_pruned(
    setup: Setup, inputs: dict[str, Any], begins: MaskBS | None, predicting: MaskBS | None, without_logits: MaskBS
) -> None:
    """Refuse what only a dense prefill can give. All masks are on the host.

    begins: [1, S], True where a new document begins. predicting: [B, S], True at places that predict a labelled token.
    without_logits: [B, S], True at padding and at visual tokens.
    """
    if isinstance(inputs.get("logits_to_keep"), Tensor):
        raise UnsupportedInput(
            "logits_to_keep as a tensor: it names places of the full sequence, and a pruned prefill has fewer; "
            "pass the number of last tokens, or leave it out and take the rows from the logits"
        )
    if predicting is not None and (unseen := predicting & without_logits).any():
        sample, place = unseen.nonzero()[0].tolist()
        raise UnsupportedInput(
            f"labels: the token at place {place + 1} of sample {sample} is predicted from a visual token, which may be "
            f"dropped, or from padding; set its label to {NOT_LABELLED}"
        )
    if begins is not None and begins.any():
        raise UnsupportedInput(
            f"position_ids that begin anew at place {int(begins.nonzero()[0, 1])}: {setup.adapter.attention} tells "
            "packed documents apart by them and cannot once tokens are dropped; give each document a row of its own, "
            "or load the model with sdpa or eager"
        )
