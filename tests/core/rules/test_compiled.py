"""The compiled saliency against autograd, with a backend that runs the traced graph unchanged: that takes no minute."""

import copy
import shutil

import pytest
import torch

from tests.core import tiny
from tests.core.rules.test_saliency import LAYERS, widest_difference
from trio_core import Trio, prune
from trio_core.rules import compiled

COMPILED = {"saliency": "compiled"}
FAMILIES = ["llava", "llava_next", "qwen2_5_vl", "qwen3_vl"]


@pytest.fixture(autouse=True)
def _unchanged_graphs(monkeypatch, request):
    """A fresh compiler that fuses nothing."""
    if request.config.getoption("--shapes"):
        pytest.skip("torch.compile cannot trace functions whose shapes are checked")
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    compiled._compiler.cache_clear()
    torch._dynamo.reset()
    yield
    compiled._compiler.cache_clear()
    torch._dynamo.reset()


def notes(model, *inputs, **options) -> list[str]:
    """The notes of each prefill."""
    told = []
    method = Trio(retention=0.5, layers=LAYERS, saliency="compiled", **options)
    with prune(model, method) as trace, torch.no_grad():
        for one in inputs:
            model(**one)
            told.append(" | ".join(trace.notes))
    return told


def graphs() -> int:
    return compiled._compiler("eager")._graphs


def was_compiled(model, *inputs, **options) -> bool:
    """Whether each stage of each prefill ran compiled code."""
    told = notes(model, *inputs, **options)
    return all("torch.compile took" in text and "ran instead" not in text for text in told)


def own_model(family: str = "llava_next"):
    """A model that the test may change."""
    return copy.deepcopy(tiny.model(family, "sdpa"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "rows"),
    tiny.fast_first([(f, rows) for f in FAMILIES for rows in ("last", "shifted")], ("llava", "last")),
)
def test_it_equals_autograd_and_keeps_the_same(family, rows):
    """LLaVA's sample has two pictures: its visual tokens do not stand side by side."""
    model, inputs = tiny.model(family, "sdpa"), tiny.sample(family)
    assert widest_difference(model, inputs, rows=rows, **COMPILED) < 1e-5
    assert was_compiled(model, inputs, rows=rows)
    assert graphs() == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
def test_the_code_of_torchs_own_compiler_equals_autograd(monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", "inductor")
    model, inputs = tiny.model("llava", "sdpa"), tiny.sample("llava")
    assert widest_difference(model, inputs, **COMPILED) < 1e-5
    assert was_compiled(model, inputs)


@pytest.mark.slow
def test_prompts_of_other_lengths_and_equal_batches_need_few_graphs():
    model = tiny.model("qwen2_5_vl", "sdpa")
    for before, after in ((3, 9), (4, 9), (3, 11), (7, 14), (5, 20)):
        inputs = tiny.sample("qwen2_5_vl", before=before, after=after)
        assert widest_difference(model, inputs, **COMPILED) < 1e-5
        assert was_compiled(model, inputs)
    assert 1 <= graphs() <= 3
    two = tiny.batch([tiny.sample("qwen2_5_vl"), tiny.sample("qwen2_5_vl", seed=1)])
    assert widest_difference(model, two, **COMPILED) < 1e-5
    assert was_compiled(model, two)
    assert graphs() <= 4


@pytest.mark.parametrize(
    ("family", "attention", "inputs", "reason"),
    [
        ("qwen2_5_vl", "sdpa", tiny.batch(tiny.unequal_spans("qwen2_5_vl"), "left"), "the batch is padded"),
        ("gemma3", "sdpa", tiny.sample("gemma3"), "the layer has an attention mask"),
    ],
    ids=["padded", "mask"],
)
@pytest.mark.slow
def test_where_it_cannot_be_compiled_a_note_says_why(family, attention, inputs, reason):
    model = tiny.model(family, attention)
    assert f"saliency 'compiled': {reason}; 'tail' ran instead" in notes(model, inputs)[0]


@pytest.mark.slow
def test_a_hook_that_is_added_later_is_heeded():
    model, inputs = own_model(), tiny.sample("llava_next")
    assert was_compiled(model, inputs)
    for layer in model.model.language_model.layers:
        layer.self_attn.k_proj.register_forward_hook(lambda _module, _args, output: 3 * output)
    assert widest_difference(model, inputs, **COMPILED) < 1e-5
    assert "self_attn.k_proj has a forward hook, so a few rows are not enough; 'autograd'" in notes(model, inputs)[0]


@pytest.mark.slow
def test_a_compiler_that_fails_is_asked_once_for_each_model(monkeypatch):
    asked = []

    def broken(graph, inputs):
        asked.append(len(inputs))
        raise RuntimeError("no g++ here\nand a long story")

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda _name: broken)
    model, inputs = own_model(), tiny.sample("llava_next")
    first, second = notes(model, inputs, inputs)
    assert len(asked) == 1
    assert first == second
    assert "torch.compile failed with BackendCompilerFailed: " in first
    assert "no g++ here" in first
    assert first.endswith("'tail' ran instead")
    assert "\n" not in first
    monkeypatch.undo()
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    assert was_compiled(own_model(), inputs), "another model of the same width is not to blame"


@pytest.mark.slow
def test_a_second_model_of_one_shape_runs_the_code_of_the_first():
    """The notes once said that torch.compile is switched off, after compiled code had run."""
    model, inputs = own_model(), tiny.sample("llava_next")
    (first,) = notes(model, inputs)
    other = own_model()
    with torch.no_grad():
        for weight in other.model.language_model.parameters():
            weight.mul_(torch.linspace(0.5, 1.5, weight.shape[-1]))
    assert notes(other, inputs) == [first]
    assert graphs() == 1
    assert widest_difference(other, inputs, **COMPILED) < 1e-5
    with torch.compiler.set_stance("force_eager"):
        assert "torch.compile is switched off in this process" in notes(own_model(), inputs)[0]
