"""An oracle that shares no code with the engine: the dense model, from which dropped tokens are hidden as keys.

Nothing is cut. The model runs with eager attention on all tokens, and no `prune` context is open. From a stage on, the
mask of each decoder layer hides the tokens that the stage dropped. All other tokens must come out as in the pruned run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from tests.core import tiny
from trio_core import prune
from trio_core.methods.method import Method

Inputs = dict[str, Tensor]
Output = TypeVar("Output")

PLACEHOLDERS = [tiny.IMAGE, tiny.VIDEO]


@dataclass(frozen=True)
class Stage:
    """What one stage left.

    layer: the stage stands after this decoder layer, 1-based; 0 is before the first.
    kept[b]: the numbers of the visual tokens that sample b keeps, 0 … V0 − 1, ascending.
    features[b]: [K, D], what stands at the kept tokens from there on, if the method merges tokens.
    """

    layer: int
    kept: tuple[list[int], ...]
    features: tuple[Tensor, ...] | None = None


def pruned(model: nn.Module, method: Method, run: Callable[[], Output]) -> tuple[Output, tuple[Stage, ...]]:
    """What `run` returns in a context of `prune`, and what each stage of its prefill left."""
    merged: dict[int, Any] = {}
    select = method.select

    def record(view: Any) -> Any:
        selection = select(view)
        merged[view.layer] = selection.features
        return selection

    object.__setattr__(method, "select", record)  # a frozen dataclass
    with prune(model, method) as trace:
        output = run()
    return output, tuple(
        Stage(stage.layer, tuple(kept.tolist() for kept in stage.kept), merged.get(stage.layer))
        for stage in trace.stages
    )


def prefill_logits(model: PreTrainedModel, inputs: Inputs, stages: Sequence[Stage], *, compact: bool = False) -> Tensor:
    """[B, S, V] of a dense prefill in which dropped tokens are hidden. Rows of dropped tokens mean nothing.

    model: with eager attention. inputs: a prompt, padded on the left or not at all.
    compact: whether positions are renumbered at each stage.
    """
    with torch.no_grad(), _hiding(model, inputs, stages, compact):
        output = model(**inputs, use_cache=False)
        return output.logits


def forced_logits(
    model: PreTrainedModel, inputs: Inputs, stages: Sequence[Stage], written: Tensor, *, compact: bool = False
) -> Tensor:
    """[B, T, V] of a dense `generate` that is made to write the tokens `written` [B, T]. Else as `prefill_logits`."""
    prompt, steps = inputs["input_ids"].shape[1], written.shape[1]

    def forced(sample: int, ids: Tensor) -> list[int]:
        return [int(written[sample, len(ids) - prompt])]

    with _hiding(model, inputs, stages, compact):
        return generate(model, inputs, steps, prefix_allowed_tokens_fn=forced)[1]


def generate(model: Any, inputs: Inputs, steps: int, **options: Any) -> tuple[Tensor, Tensor]:
    """Greedy generation of exactly `steps` tokens: the tokens [B, T] and their logits [B, T, V]."""
    output = tiny.generate(model, inputs, steps, **options)
    return output.sequences[:, -steps:], torch.stack(output.logits, dim=1)


@contextmanager
def _hiding(model: PreTrainedModel, inputs: Inputs, stages: Sequence[Stage], compact: bool) -> Iterator[None]:
    """Hide dropped tokens in the decoder layers of a dense model."""
    assert model.config.get_text_config()._attn_implementation == "eager"
    layers = decoder_layers(model)
    hooks = [_Hook(inputs["input_ids"], stages, index, compact) for index in range(len(layers))]
    pairs = zip(layers, hooks, strict=True)
    with tiny.attached(layer.register_forward_pre_hook(hook, with_kwargs=True) for layer, hook in pairs):
        yield


class _Hook:
    """The pre-hook of one decoder layer, for one prompt and the tokens written behind it.

    dropped: [B, S], True at the tokens of the prompt that are hidden here.
    merged: for each sample the rows and the features of a stage right before this layer.
    """

    def __init__(self, input_ids: Tensor, stages: Sequence[Stage], index: int, compact: bool):
        self.compact = compact
        self.tokens = 0  # that this layer has seen
        self.dropped = torch.zeros_like(input_ids, dtype=torch.bool)
        self.merged: list[tuple[Tensor, Tensor]] = []
        self.rotary: list[Tensor] = []
        for sample, ids in enumerate(input_ids):
            rows = torch.isin(ids, torch.tensor(PLACEHOLDERS)).nonzero().squeeze(1)
            for stage in stages:
                if stage.layer > index:
                    continue
                self.dropped[sample, rows] = True
                self.dropped[sample, rows[stage.kept[sample]]] = False
                if stage.layer == index and stage.features is not None:
                    self.merged.append((rows[stage.kept[sample]], stage.features[sample]))

    def __call__(self, _layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hidden, mask = args[0], kwargs["attention_mask"]
        if self.merged and not self.tokens:
            hidden = hidden.clone()
            for sample, (rows, features) in enumerate(self.merged):
                hidden[sample, rows] = features.to(hidden.dtype)
        self.tokens += hidden.shape[1]
        # The library's mask ends at the latest token; under a sliding window it begins late.
        written = self.tokens - self.dropped.shape[1]
        keys = pad(self.dropped, (0, written))[:, -mask.shape[-1] :]
        kwargs["attention_mask"] = torch.where(keys[:, None, None], torch.finfo(mask.dtype).min, mask)
        if self.compact:
            kwargs["position_embeddings"] = self._renumbered(kwargs["position_embeddings"], hidden.shape[1])
        return (hidden, *args[1:]), kwargs

    def _renumbered(self, rotary: tuple[Tensor, ...], new: int) -> list[Tensor]:
        """The rotary embedding of the new tokens: each takes that of a token further left, by as many as are gone."""
        batch = len(self.dropped)
        gone = pad(self.dropped.long(), (0, self.tokens - self.dropped.shape[1])).cumsum(dim=1)
        places = (torch.arange(self.tokens) - gone).clamp_min(0)[:, -new:]
        rows = [part.expand(batch, -1, -1) for part in rotary]
        self.rotary = (
            [torch.cat(parts, dim=1) for parts in zip(self.rotary, rows, strict=True)] if self.rotary else rows
        )
        return [part.gather(1, places[..., None].expand(-1, -1, part.shape[-1])) for part in self.rotary]


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The decoder layers of a toy: its only list of that length."""
    (layers,) = (
        module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == tiny.NUM_LAYERS
    )
    return layers
