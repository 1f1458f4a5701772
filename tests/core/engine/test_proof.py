"""A known family proves itself on a release of transformers that was not tested."""

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.core import tiny, unknown
from trio_core import UnsupportedModel, prune
from trio_core.engine import calls, passes, prefill, proof
from trio_core.methods.random import Random
from trio_core.models import adapter_for, families
from trio_core.models.adapter import Adapter


@pytest.fixture(autouse=True)
def untested(monkeypatch):
    """The installed release counts as untested, and nothing is proved yet."""
    monkeypatch.setattr(proof, "installed", lambda: "5.99")
    monkeypatch.setattr(proof, "is_tested", lambda: False)
    monkeypatch.setattr(proof, "_proved", set())


def pruned(family: str = "llava", attention: str | None = None) -> None:
    model = tiny.model(family, attention)
    with torch.inference_mode(), prune(model, Random(retention=0.5)):
        model(**tiny.sample(family))


@tiny.every_kernel
def test_every_family_holds(family, attention):
    with pytest.warns(RuntimeWarning, match=f"was not tested on transformers 5.99 .*{tiny.NAMES[family]} was pruned"):
        pruned(family, attention)


def test_a_family_is_proved_once_and_warns_once(monkeypatch):
    monkeypatch.setattr(proof, "fault", lambda *_: "")
    with pytest.warns(RuntimeWarning) as first:
        pruned()
    with warnings.catch_warnings(action="error"):
        pruned()
    assert len(first) == 1
    with pytest.warns(RuntimeWarning, match="Qwen3-VL"):
        pruned("qwen3_vl")


@pytest.mark.parametrize(
    ("model", "decoder"),
    (
        (lambda: unknown.glm_4_1v(), "glm4v_text"),
        (lambda: tiny.model("paligemma2"), "gemma2"),
        (lambda: tiny.variant("llava_next", text={"model_type": "qwen2"}), "qwen2"),
    ),
    ids=("GLM-4.1V", "PaliGemma 2", "LLaVA-NeXT with Qwen 2"),
)
def test_the_toy_has_the_class_and_the_decoder_of_the_model(model, decoder):
    own = model()
    toy = proof.like(adapter_for(own)).toy("eager")
    assert type(toy) is type(own)
    assert toy.config.get_text_config().model_type == decoder
    assert families[adapter_for(own).family].classes == type(adapter_for(own)).classes  # nothing was registered


def test_a_tested_release_needs_no_proof(monkeypatch):
    monkeypatch.setattr(proof, "is_tested", lambda: True)
    monkeypatch.setattr(proof, "fault", None)
    pruned()


def interrupt(*_: Any) -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fault", "error"), ((interrupt, KeyboardInterrupt), (lambda *_: "it broke", UnsupportedModel))
)
def test_a_proof_that_was_interrupted_or_failed_is_run_again(monkeypatch, fault, error):
    """A program may have a global hook for a while that no release has."""
    monkeypatch.setattr(proof, "fault", fault)
    with pytest.raises(error):
        pruned()
    monkeypatch.setattr(proof, "fault", lambda *_: "")
    with pytest.warns(RuntimeWarning, match="held"):
        pruned()


@pytest.mark.filterwarnings("ignore:prune.*no forward")
def test_the_users_settings_do_not_reach_the_proof_and_are_as_they_were(request):
    """Precision, autocast, the device, and the random numbers to come."""
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    expected, model = torch.rand(3, dtype=torch.float32), tiny.model("llava")
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        with torch.device("meta"), pytest.warns(RuntimeWarning, match="held"), prune(model, "random", retention=0.5):
            assert torch.empty(1).device.type == "meta"
        assert torch.get_default_dtype() == torch.bfloat16 and torch.is_autocast_enabled("cpu")
    assert torch.equal(torch.rand(3, dtype=torch.float32), expected)


def test_another_thread_waits_for_the_proof(monkeypatch):
    """The first thread is inside the proof when the second one opens its context."""
    began, go_on, runs = threading.Event(), threading.Event(), []

    def fault(*_: Any) -> str:
        runs.append(threading.current_thread())
        began.set()
        go_on.wait(timeout=60)
        return "decodes: off"

    monkeypatch.setattr(proof, "fault", fault)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(pruned)
        assert began.wait(timeout=60)
        second = pool.submit(pruned)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.2)
        go_on.set()
        assert all(isinstance(each.exception(), UnsupportedModel) for each in (first, second))
    assert len(runs) == 2, "a failure is not remembered"


Fault = Callable[[pytest.MonkeyPatch], None]


def keys_doubled(patch: pytest.MonkeyPatch) -> None:
    """Saliency `autograd` runs the layer on the cache, as with 5.24 before it was known."""
    patch.setattr(prefill, "without_cache", lambda kwargs: kwargs)


def cache_unseen(patch: pytest.MonkeyPatch) -> None:
    """The cache has another name, and nothing refuses that name."""
    patch.setattr(calls, "CACHE", ("memory",))
    patch.setattr(calls, "check_model_call", lambda _: None)
    for name in ("check_filled", "check_decoder_output", "check_decoder_call"):
        patch.setattr(f"trio_core.engine.attach.{name}", lambda *_: None)
    patch.setattr("trio_core.engine.prompt.check_model_call", lambda _: None)
    patch.setattr("trio_core.engine.passes.check_layer_call", lambda *_: None)


def masks_uncut(patch: pytest.MonkeyPatch) -> None:
    """Fillers are seen by all tokens."""

    def without_fillers(frame: Any, mask: Any, *rest: Any, **facts: Any) -> Any:
        return cut(proof_frame(frame), mask, *rest, **facts)

    def proof_frame(frame: Any) -> Any:
        return type(frame)(frame.index, torch.ones_like(frame.valid), frame.dropped, frame.full_length, hides=False)

    cut = passes.cut_mask
    patch.setattr(passes, "cut_mask", without_fillers)


def scores_wrong(patch: pytest.MonkeyPatch) -> None:
    """The gradient of another layer."""
    run = prefill._run
    patch.setattr(prefill, "_run", lambda layer, kwargs, hidden: run(layer, kwargs, hidden.flip(1)))


def layers_changed(patch: pytest.MonkeyPatch) -> None:
    """A layer scales its FFN, which the formula of saliency `tail` does not know."""
    finish = Adapter.finish

    def half(self: Adapter, layer: Any, residual: Any, attended: Any) -> Any:
        middle = residual + attended
        return middle + (finish(self, layer, residual, attended) - middle) / 2

    patch.setattr(Adapter, "finish", half)


@pytest.mark.parametrize(
    ("fault", "says"),
    tiny.fast_first(
        (
            (keys_doubled, "selects: "),
            (cache_unseen, "decodes: "),
            (masks_uncut, "decodes: off by"),
            (scores_wrong, "selects: off by"),
            (layers_changed, "selects: off by"),
        ),
        *(masks_uncut, scores_wrong),
    ),
)
def test_what_a_release_breaks_is_refused_in_one_line(monkeypatch, fault: Fault, says: str):
    fault(monkeypatch)
    message = rf"not tested on transformers 5.99, and a toy of LLaVA-1.5 fails there \({says}.*: use a tested release"
    with tiny.refused(UnsupportedModel, message):
        pruned()


def test_the_proof_holds_the_scores_of_every_family_to_torchs_own_backward():
    """A wrong oracle would refuse all; a lax one nothing. Scores that are off by a hundredth are caught."""
    family = families["LLaVA-1.5"]
    dense, inputs = family(family.toy("eager")), family.toy_sample("large")
    with torch.no_grad():
        _, stages = proof._generated(family, "sdpa", prune, inputs, "trio", saliency="autograd")
        ours, oracle = stages[0].scores[0], proof._gradient(dense, inputs, stages, stages[0].layer)
    assert proof._difference(ours, oracle) < 1e-5
    assert proof._difference(ours * 1.01, oracle) > proof.TOLERANCE
