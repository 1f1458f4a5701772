"""What toys cannot show: hidden states of a language model that others trained. CI installs its parts each night."""

from typing import Any

import pytest
import torch

from tests.profile.inputs.smol.test_assembly import needs_parts
from trio_core import Trio, prune
from trio_core.methods import registry
from trio_profile.inputs.models import load
from trio_profile.inputs.smol.shapes import exam
from trio_profile.inputs.workload import ask
from trio_profile.records.schema import Study

pytestmark = [pytest.mark.slow, needs_parts]

ENCODER = ("cdpruner", "fastervlm", "holov", "prumerge", "scope", "split-cdpruner", "trio-ve", "visionzip", "vispruner")
"""They read the tower, which has a CLS token and is not CLIP's."""
DTYPES = ("float32", "bfloat16", "float16")


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {dtype: load(Study(model="smol", dtype=dtype)) for dtype in DTYPES}


def inputs(loaded: Any, number: int = 0) -> dict[str, torch.Tensor]:
    question = exam(number + 1)[number]
    made = ask(loaded.processor, [question.picture()], question.text)
    return {name: value.to(loaded.model.dtype) if value.is_floating_point() else value for name, value in made.items()}


def pruned(loaded: Any, method: Any, number: int = 0, **options: Any) -> tuple[torch.Tensor, Any]:
    """The logits of the last token, and the trace."""
    with torch.no_grad(), prune(loaded.model, method, **options) as trace:
        logits = loaded.model(**inputs(loaded, number)).logits
    return logits[0, -1].float(), trace


def test_the_first_token_is_a_sink_with_massive_activations(models):
    loaded = models["float32"]
    loaded.model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            seen = loaded.model(**inputs(loaded), output_hidden_states=True, output_attentions=True)
    finally:
        loaded.model.set_attn_implementation("sdpa")
    norms = seen.hidden_states[15][0].norm(dim=-1)
    assert norms[0] > 50 * norms.median(), "a token's norm is that of a hundred others"
    assert max(float(weights[0, :, -1, 0].mean()) for weights in seen.attentions) > 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_method_for_pictures_has_finite_scores(models, dtype: str):
    for name, cls in sorted(registry.items()):
        if not cls.__module__.startswith("trio_core.") or cls.media == "videos" or name == "pixelprune":
            continue
        logits, trace = pruned(models[dtype], name, retention=0.33)
        assert torch.isfinite(logits).all(), name
        for stage in trace.stages:
            left = [] if stage.scores is None else [stage.scores[0][stage.kept[0]]]
            assert all(torch.isfinite(scores).all() for scores in left), name
        assert trace.stages[-1].tokens_after < 300 or name == "vtw", name


def test_methods_that_read_the_tower_keep_what_was_asked(models):
    for name in ENCODER:
        _, trace = pruned(models["float32"], name, retention=0.33)
        assert abs(trace.realised_retention - 0.33) < 0.01, name


@pytest.mark.parametrize("number", range(3))
def test_trios_saliency_is_that_of_autograd(models, number: int):
    kept: list[list[list[int]]] = []
    scores: list[list[torch.Tensor]] = []
    for saliency in ("tail", "autograd"):
        _, trace = pruned(models["float32"], Trio(retention=0.33, saliency=saliency), number)
        kept.append([stage.kept[0].tolist() for stage in trace.stages])
        scores.append([stage.scores[0][stage.kept[0]].double() for stage in trace.stages])
    assert kept[0] == kept[1]
    for tail, autograd in zip(*scores, strict=True):
        assert torch.allclose(tail, autograd, rtol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_half_precision_keeps_most_of_the_same_tokens(models, dtype: str, saliency: str):
    method = Trio(retention=0.33, saliency=saliency)
    (_, whole), (_, half) = pruned(models["float32"], method), pruned(models[dtype], method)
    for one, other in zip(whole.stages, half.stages, strict=True):
        assert len(set(one.kept[0].tolist()) & set(other.kept[0].tolist())) > 0.85 * len(one.kept[0])
