"""Every method in every family, beside the dense model from which dropped tokens are hidden as keys.

The oracle (`tests/core/hidden_keys.py`) cuts nothing and shares no code with the engine. Its inputs are what each stage
kept, and the features that a merging method made there. The pruned model runs with sdpa where the family has it, the
dense one with eager attention. Generation is also made by hand, step by step on the cache.
"""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import hidden_keys, tiny
from tests.core.hidden_keys import Inputs
from tests.core.methods import towers
from tests.core.methods.test_methods import BUILT_IN
from trio_core import methods, prune
from trio_core.methods.method import Method
from trio_core.methods.view import Signal

CLOSE = 2e-4
STEPS = 3
WORDS = 9
"""How many words follow the picture, at least."""

METHODS = {name: methods.find(name)(retention=0.5) for name in (*BUILT_IN, "visionzip+trio")}
READ_TOWERS = ("llava", "llava_next", "llava_next_video", "llava_onevision", "qwen2_vl", "qwen2_5_vl")
"""The families whose tower a method may look into. PruMerge needs a CLS token, which only CLIP's towers have."""


def prunes(family: str, name: str, method: Method) -> bool:
    """Whether a method prunes a family."""
    read = family in READ_TOWERS and not (name == "prumerge" and family not in towers.WITH_CLS)
    has_media = method.media != "videos" or family in tiny.WITH_VIDEOS
    same_tower = Signal.PIXELS not in method.needs  # otherwise the dense tower is no oracle
    return has_media and same_tower and (read or method.grids_suffice or Signal.ENCODER not in method.needs)


PAIRS = [(family, name) for family in tiny.FAMILIES for name, method in METHODS.items() if prunes(family, name, method)]
KINDS = ("dart", "evs", "fastvid", "random", "sparsevlm", "trio", "vtw", "visionzip")
"""One of each kind: keys with positions, no score, merged tokens, gradients, nothing left, the encoder, videos."""


def samples(family: str, method: Method) -> list[Inputs]:
    """Two samples of unequal length, the shorter one first."""
    if method.media == "videos":
        return tiny.videos(family, WORDS)
    large = tiny.sample(family, after=WORDS + 3)
    if Signal.ENCODER in method.needs:  # a tower is read for pictures or videos
        large = tiny.without_videos(large)
    return [tiny.sample(family, "small", after=WORDS, seed=1), large]


def check(method: Method, inputs: Inputs, model: PreTrainedModel, dense: PreTrainedModel, compact: bool) -> None:
    """Prefill and greedy decode. compact: whether positions are renumbered in this family."""
    with torch.no_grad():
        output, stages = hidden_keys.pruned(model, method, lambda: model(**inputs, use_cache=False))
    expected = hidden_keys.prefill_logits(dense, inputs, stages, compact=compact)
    assert farthest(output.logits[:, -WORDS:], expected[:, -WORDS:]) < CLOSE, "prefill"
    (written, logits), stages = hidden_keys.pruned(model, method, lambda: hidden_keys.generate(model, inputs, STEPS))
    expected = hidden_keys.forced_logits(dense, inputs, stages, written, compact=compact)
    assert farthest(logits, expected) < CLOSE, "generate"
    visual = torch.isin(inputs["input_ids"], torch.tensor(hidden_keys.PLACEHOLDERS)).sum(dim=1)
    assert all(len(kept) < count for kept, count in zip(stages[-1].kept, visual, strict=True)), "nothing was dropped"


def farthest(logits: Tensor, expected: Tensor) -> float:
    """The largest difference; infinite where one is no number."""
    assert logits.shape == expected.shape
    return (logits - expected).abs().nan_to_num(nan=torch.inf).max().item()


FAST = [
    *(("llava", name) for name in KINDS),
    *(("qwen2_5_vl", name) for name in ("dart", "evs", "fastvid", "trio", "visionzip")),
    *(("gemma3", name) for name in ("sparsevlm", "trio", "vtw")),
]


@pytest.mark.parametrize(("family", "name"), tiny.fast_first(PAIRS, *FAST))
def test_as_if_dropped_tokens_were_hidden(family, name):
    """A sample alone, and a batch padded at its left."""
    both = samples(family, method := METHODS[name])
    compact = method.positions == "compact" and family not in tiny.MULTI_AXIS
    for inputs in (both[-1], tiny.batch(both)):
        check(method, inputs, tiny.model(family), tiny.model(family, "eager"), compact)


# --- steps by hand ---------------------------------------------------------------------------------------------------

STEPPED = ("llava", "qwen2_5_vl", "qwen3_vl", "gemma3", "llava_onevision")
CASES = {name: METHODS[name] for name in ("fastv", "pyramiddrop", "trio", "divprune")} | {
    "trio by autograd": methods.find("trio")(retention=0.5, saliency="autograd"),
    "random with compact positions": methods.find("random")(retention=0.5, positions="compact"),
}


def by_hand(model: Any, inputs: Inputs, written: Tensor, *, mask: bool) -> Tensor:
    """[B, T, V]: the logits of a prefill and of steps on its cache, which are made to read `written` [B, T].

    mask: whether each step brings an attention mask, as generate() does; else the model makes positions itself.
    """
    output = model(**inputs, use_cache=True)
    cache, logits, valid = output[tiny.CACHE], [output.logits[:, -1]], inputs["attention_mask"]
    for token in written[:, :-1].split(1, dim=1):
        valid = torch.cat([valid, torch.ones_like(token)], dim=1)
        step = {"input_ids": token, tiny.CACHE: cache}
        if mask:
            step["attention_mask"] = valid
            if (deltas := getattr(model.model, "rope_deltas", None)) is not None:  # Qwen needs them, dense too
                step["position_ids"] = (valid.sum(dim=1, keepdim=True) - 1 + deltas).expand(3, -1, -1)
        logits.append(model(**step).logits[:, -1])
    return torch.stack(logits, dim=1)


@pytest.mark.parametrize(
    ("family", "attention", "case"),
    tiny.fast_first(
        product(STEPPED, tiny.ATTENTION, CASES),
        ("llava", "sdpa", "divprune"),
        ("llava", "sdpa", "random with compact positions"),
        ("gemma3", "eager", "trio by autograd"),
        ("qwen3_vl", "sdpa", "divprune"),
    ),
)
@torch.no_grad()
def test_steps_by_hand_are_as_if_dropped_tokens_were_hidden(family, attention, case):
    """When transformers 5.24 renamed the cache, 28 of 90 cases were silently wrong, and 34 ended in a raw error."""
    method, model, dense = CASES[case], tiny.model(family, attention), tiny.model(family, "eager")
    if (compact := method.positions == "compact") and family in tiny.MULTI_AXIS:
        pytest.skip("positions on several axes cannot be renumbered")
    both = samples(family, method)
    for inputs in (both[-1], tiny.batch(both)):
        run = lambda inputs=inputs: hidden_keys.generate(model, inputs, STEPS)  # noqa: E731
        (written, _), stages = hidden_keys.pruned(model, method, run)
        expected = hidden_keys.forced_logits(dense, inputs, stages, written, compact=compact)
        with prune(model, method):
            logits = by_hand(model, inputs, written, mask=inputs is not both[-1])
        assert farthest(logits, expected) < CLOSE
