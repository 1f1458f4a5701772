"""FasterVLM: by hand, and inside the models against the tower's own eager maps."""

import pytest
import torch

from tests.core import tiny
from tests.core.methods import towers
from trio_core.methods.fastervlm import FasterVLM


@pytest.mark.parametrize("retention", [0.17, 0.8])
@towers.families
def test_inside_the_models(family, retention):
    def best(crop: towers.Crop, patches: list[int], budget: int) -> list[int]:
        return sorted(range(len(patches)), key=lambda i: (-float(crop.attention[patches[i]]), i))[:budget]

    towers.check_selection(family, FasterVLM(retention=retention), towers.crop_by_crop(best))


@towers.families
def test_the_scores_are_the_averaged_attention(family):
    model, samples = tiny.model(family), tiny.pair(family)
    trace = tiny.prefill(model, samples, FasterVLM(retention=0.3))
    for b in range(2):
        scores = trace.stages[0].scores[b]
        wanted = torch.zeros_like(scores, dtype=torch.float64)  # newlines have no score
        for crop in towers.crops_of_sample(family, b):
            wanted[[*crop.numbers.values()]] = crop.attention[[*crop.numbers]] / crop.heads
        assert torch.allclose(scores.double(), wanted, rtol=1e-4, atol=1e-8)
