"""What a release of transformers may break, beside the dense model from which dropped tokens are hidden as keys.

Every case runs on each release in `TESTED` (`make transformers`). When 5.24 renamed the cache, 28 of 90 cases were
silently wrong and 34 ended in a raw error.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.core import hidden_keys, tiny
from tests.core.hidden_keys import Inputs
from trio_core import methods, prune
from trio_core.methods.method import Method

CLOSE = 2e-4
STEPS = 6
WORDS = 9
CASES = {
    "fastv": {},
    "pyramiddrop": {},
    "trio": {"saliency": "tail"},
    "trio by autograd": {"saliency": "autograd"},
    "divprune": {},
    "random with compact positions": {"positions": "compact"},
}


def prompts(family: str) -> dict[str, Inputs]:
    """A prompt alone, a batch that is padded, and one without padding whose pictures are unequal."""
    return {
        "one prompt": tiny.sample(family, after=WORDS),
        "padded": tiny.batch([tiny.sample(family, "small", after=WORDS, seed=1), tiny.sample(family, after=WORDS + 3)]),
        "unequal": tiny.batch(tiny.unequal_spans(family)),
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


def method_of(case: str) -> Method:
    return methods.find(case.partition(" ")[0])(retention=0.5, **CASES[case])


FAMILIES = ("llava", "qwen2_5_vl", "qwen3_vl", "gemma3", "llava_onevision")
EVERY = [(family, attention, case) for family in FAMILIES for attention in tiny.ATTENTION for case in CASES]
FAST = [
    *(("llava", "sdpa", case) for case in ("divprune", "trio", "random with compact positions")),
    ("gemma3", "eager", "trio by autograd"),
    ("qwen3_vl", "sdpa", "divprune"),
]


@pytest.mark.parametrize(("family", "attention", "case"), tiny.fast_first(EVERY, *FAST))
@torch.no_grad()
def test_generate_and_steps_by_hand_are_as_if_dropped_tokens_were_hidden(family, attention, case):
    if "compact" in case and family in tiny.MULTI_AXIS:
        pytest.skip("positions on several axes cannot be renumbered")
    model, dense = tiny.model(family, attention), tiny.model(family, "eager")
    compact = method_of(case).positions == "compact" and family not in tiny.MULTI_AXIS
    for name, inputs in prompts(family).items():
        run = lambda inputs=inputs: hidden_keys.generate(model, inputs, STEPS)  # noqa: E731
        (written, logits), stages = hidden_keys.pruned(model, method_of(case), run)
        expected = hidden_keys.forced_logits(dense, inputs, stages, written, compact=compact)
        assert farthest(logits, expected) < CLOSE, f"{name}: generate"
        if name != "unequal":  # there each sample has positions of its own, which only generate() knows
            with prune(model, method_of(case)) as trace:
                logits = by_hand(model, inputs, written, mask=name == "padded")
            assert not trace.notes or case.startswith("random"), trace.notes
            assert farthest(logits, expected) < CLOSE, f"{name}: by hand"


def farthest(logits: Tensor, expected: Tensor) -> float:
    """The largest difference; infinite where one is no number."""
    return (logits - expected).abs().nan_to_num(nan=torch.inf).max().item()
