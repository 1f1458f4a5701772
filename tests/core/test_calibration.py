"""The search for VTW's layer, beside a loop over dense models from which the pictures are hidden as keys."""

import pytest
import torch
from torch.nn.functional import kl_div

from tests.core import hidden_keys, tiny
from tests.core.hidden_keys import Stage
from trio_core import OptionError
from trio_core.calibration import divergence, vtw_layer

PROMPTS = [tiny.sample("llava", "small", seed=1), tiny.sample("llava", seed=2)]


def divergences(family: str, prompts) -> dict[int, float]:
    """By torch's own formula: the mean divergence of a picture that leaves after each layer."""
    model, means = tiny.model(family, "eager"), {}
    for layer in range(1, tiny.NUM_LAYERS):
        seen = []
        for prompt in prompts:
            nothing = Stage(layer, ([],) * len(prompt["input_ids"]))
            with torch.no_grad():
                full = model(**prompt).logits[:, -1].log_softmax(dim=-1)
            left = hidden_keys.prefill_logits(model, prompt, [nothing])[:, -1].softmax(dim=-1)
            seen.append(kl_div(full, left, reduction="batchmean").item())
        means[layer] = sum(seen) / len(seen)
    return means


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl", "gemma3"])
def test_it_is_the_first_layer_that_is_close_enough(family):
    prompts = [
        tiny.sample(family, "small", seed=1),
        tiny.batch([tiny.sample(family, "small", seed=2), tiny.sample(family, after=12)]),
    ]
    means = divergences(family, prompts)
    assert min(means.values()) > 0 and len(set(means.values())) == len(means)
    for threshold in means.values():
        for first in (1, 3):
            near = [layer for layer, mean in means.items() if layer >= first and mean <= threshold]
            if near:
                assert vtw_layer(tiny.model(family), prompts, threshold * (1 + 1e-4), first) == near[0]


def test_the_divergence_by_hand():
    """KL(q ‖ p) of q = (1/4, 3/4) and p = (1/2, 1/2): 1/4 · log 1/2 + 3/4 · log 3/2."""
    dropped, full = torch.tensor([[0.25, 0.75], [0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    assert divergence(dropped, full) == pytest.approx(0.130812 / 2, rel=1e-4)
    assert divergence(full, dropped) == pytest.approx(0.143841 / 2, rel=1e-4)


def test_a_search_without_a_result_is_refused_in_one_line():
    for prompts, options, message in (
        (
            PROMPTS[:1],
            {"threshold": 0.0},
            r"threshold 0\.0: no layer from 5 to 5 .*; the closest is layer 5",
        ),
        (PROMPTS, {"first": 6}, r"first 6: this decoder's candidates are the layers 1 … 5"),
        (PROMPTS, {"first": 0}, r"first 0: this decoder's candidates"),
        ([], {}, "prompts: none is given"),
        ([PROMPTS[0], {"input_ids": torch.arange(1, 9)[None]}], {}, "prompt 1 has no picture"),
        ([tiny.batch(PROMPTS, side="right")], {}, "prompt 0 is padded at its end: pad on the left"),
    ):
        with tiny.refused(OptionError, message):
            vtw_layer(tiny.model("llava"), prompts, **options)
