"""The compiled saliency against autograd, with a compiler that runs the traced graph as it is: that takes no minute.

What torch's own compiler makes of the graph is compared and timed in `tests/benchmarks/test_prefill.py`.
"""

import pytest
import torch

from tests.core import tiny
from tests.core.rules.test_saliency import LAYERS, traced, widest_difference
from trio_core import Trio, prune
from trio_core.rules import compiled

COMPILED = {"saliency": "compiled"}


@pytest.fixture(autouse=True)
def _plain_compiler(monkeypatch):
    """A fresh compiler that fuses nothing. torch compiles a function for eight kinds of models, then stops."""
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    compiled._compiler.cache_clear()
    torch._dynamo.reset()
    yield
    compiled._compiler.cache_clear()
    torch._dynamo.reset()


def notes(model, *inputs) -> list[str]:
    """The notes of each prefill."""
    found = []
    with prune(model, Trio(retention=0.5, layers=LAYERS, saliency="compiled")) as trace, torch.no_grad():
        for one in inputs:
            model(**one)
            found.append(" | ".join(trace.notes))
    return found


def compilations() -> int:
    return compiled._compiler("eager")._compilations


@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("family", ["llava", "llava_next", "qwen2_5_vl", "qwen3_vl"])
def test_it_equals_autograd_and_keeps_the_same(family, rows):
    """LLaVA's sample has two pictures: its visual tokens do not stand side by side."""
    model, inputs = tiny.model(family, "sdpa"), tiny.sample(family)
    assert widest_difference(model, inputs, rows=rows, **COMPILED) < 1e-5
    assert compilations() == 1


def test_prompts_of_other_lengths_and_equal_batches_need_few_graphs():
    model = tiny.model("qwen2_5_vl", "sdpa")
    for before, after in ((3, 9), (4, 9), (3, 11), (7, 14), (5, 20)):
        inputs = tiny.sample("qwen2_5_vl", before=before, after=after)
        assert widest_difference(model, inputs, **COMPILED) < 1e-5
    assert compilations() <= 3
    two = tiny.batch([tiny.sample("qwen2_5_vl"), tiny.sample("qwen2_5_vl", seed=1)])
    assert widest_difference(model, two, **COMPILED) < 1e-5
    assert compilations() <= 4


def test_the_notes_say_how_long_the_compiler_took():
    first, second = notes(tiny.model("llava_next", "sdpa"), tiny.sample("llava_next"), tiny.sample("llava_next"))
    assert first == second
    assert first.startswith("saliency 'compiled': torch.compile took ")


@pytest.mark.parametrize(
    ("family", "attention", "inputs", "reason"),
    [
        ("qwen2_5_vl", "sdpa", tiny.batch(tiny.unequal_spans("qwen2_5_vl"), "left"), "the batch is padded"),
        ("llava", "eager", tiny.sample("llava"), "the layer has a mask of its own"),
        ("gemma3", "sdpa", tiny.sample("gemma3"), "the layer has a mask of its own"),
    ],
    ids=["padded", "mask", "gemma3"],
)
def test_where_it_cannot_be_compiled_the_tail_runs_and_a_note_says_why(family, attention, inputs, reason):
    model = tiny.model(family, attention)
    assert f"saliency 'compiled': {reason}; 'tail' ran instead" in notes(model, inputs)[0]
    for ours, tail in zip(traced(model, inputs, **COMPILED), traced(model, inputs), strict=True):
        for b, kept in enumerate(ours.kept):
            assert torch.equal(kept, tail.kept[b])


def test_a_compiler_that_fails_is_asked_once(monkeypatch):
    asked = []

    def broken(graph, inputs):
        asked.append(len(inputs))
        raise RuntimeError("no g++ here\nand a long story")

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda _name: broken)
    model, inputs = tiny.model("llava_next", "sdpa"), tiny.sample("llava_next")
    first, second = notes(model, inputs, inputs)
    assert len(asked) == 1
    assert first == second
    assert "torch.compile failed with BackendCompilerFailed: " in first
    assert "no g++ here" in first
    assert first.endswith("'tail' ran instead")
    assert "\n" not in first
