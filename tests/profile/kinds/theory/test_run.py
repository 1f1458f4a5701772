"""`trio-profile theory`: saliencies against plain autograd, removals against plain loops, its document, refusals."""

import json
from shutil import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import kl_div

from tests.profile.studying import make
from trio_core import Trio, prune
from trio_profile.cli import run
from trio_profile.inputs.workload import Workload, build
from trio_profile.kinds.theory import run as profiler
from trio_profile.kinds.theory.document import Removal
from trio_profile.records.schema import Study
from trio_profile.study import running
from trio_profile.study.kinds import find

K_POS, LAYER = 4, 3


@pytest.fixture(scope="module")
def workload(checkpoint) -> Workload:
    """Six layers, 36 visual tokens, float64, but for the norms, which the library computes in float32."""
    found = build(Study(model=str(checkpoint)))
    found.model.double()
    found.inputs["pixel_values"] = found.inputs["pixel_values"].double()
    return found


@pytest.fixture(scope="module")
def found(workload: Workload) -> profiler.ByLayer:
    return profiler.by_layer(workload, workload.inputs, K_POS, "last")


def remove(workload: Workload, found: profiler.ByLayer, trio: Trio, share: float) -> list[Removal]:
    options = {"layers": (LAYER,), "shares": (share,), "question": 0, "seed": 0}
    return list(profiler.removals(workload, workload.inputs, found, trio, **options))


@pytest.fixture(scope="module")
def by_hand(workload: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[L, N] each: current, last and norms, one layer and one plain cross-entropy after the other."""
    model, ids = workload.model, workload.inputs["input_ids"]
    decoder = workload.adapter.decoder
    places = (ids[0] == model.config.image_token_index).nonzero().squeeze(1)
    caught: dict[str, torch.Tensor] = {}

    def catch(_module, _args, kwargs):
        caught.update(kwargs)

    with torch.no_grad():
        handle = decoder.register_forward_pre_hook(catch, with_kwargs=True)
        model(**workload.inputs, use_cache=False)
        handle.remove()
    embedded = caught["inputs_embeds"].clone().requires_grad_()
    hidden = decoder(inputs_embeds=embedded, use_cache=False, output_hidden_states=True).hidden_states
    # The library hands out the last layer's output behind the norm.
    entering = list(hidden[:-1])

    def loss(normed):
        logits = model.lm_head(normed)[0, -K_POS:]
        return F.cross_entropy(logits, logits.argmax(dim=-1))

    def norm_of_gradient(value, at):
        return torch.autograd.grad(value, at, retain_graph=True)[0][0, places].norm(dim=-1).numpy()

    ends = [loss(decoder.norm(after)) for after in entering[1:]] + [loss(hidden[-1])]
    current = np.stack([norm_of_gradient(end, at) for end, at in zip(ends, entering, strict=True)])
    last = np.stack([norm_of_gradient(ends[-1], at) for at in entering])
    return current, last, np.stack([at.detach()[0, places].norm(dim=-1).numpy() for at in entering])


def test_saliencies_equal_those_of_plain_autograd(found: profiler.ByLayer, by_hand):
    for ours, plain in zip((found.current, found.last, found.norms), by_hand, strict=True):
        assert ours.shape == (6, 36)
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("probe", ["next", "current"])
def test_the_saliency_of_a_layer_is_the_one_that_trio_ranks_by(workload: Workload, probe, rows):
    ours = profiler.by_layer(workload, workload.inputs, K_POS, rows).current
    with torch.no_grad(), prune(workload.model, Trio(retention=0.7, layers=(LAYER,), probe=probe, rows=rows)) as trace:
        workload.prefill(use_cache=False)
    scores = trace.stages[0].scores
    assert scores is not None
    np.testing.assert_allclose(ours[LAYER if probe == "next" else LAYER - 1], scores[0].numpy(), rtol=1e-6)


def test_the_model_is_left_as_it_was_even_under_inference_mode(workload: Workload, found: profiler.ByLayer):
    def hooks() -> list[int]:
        return [len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in workload.adapter.layers]

    before = hooks()  # the library may have its own
    frozen = next(workload.model.parameters()).requires_grad_(False)
    with torch.inference_mode():
        again = profiler.by_layer(workload, workload.inputs, K_POS, "last")
    np.testing.assert_array_equal(again.last, found.last)
    assert hooks() == before
    assert all(parameter.grad is None for parameter in workload.model.parameters())
    assert sum(not parameter.requires_grad for parameter in workload.model.parameters()) == 1
    frozen.requires_grad_(True)


@pytest.mark.parametrize(("probe", "row"), [("next", LAYER), ("current", LAYER - 1)])
def test_removals_equal_those_of_a_plain_loop_and_torchs_divergence(workload: Workload, found, probe, row):
    trio = Trio(retention=1.0, probe=probe)
    dense = workload.prefill(use_cache=False).logits[0, -1]
    ranking = np.argsort(-found.current[row], kind="stable")
    ends = {"highest saliency": ranking[:7], "lowest saliency": ranking[-7:]}
    removed = remove(workload, found, trio, 0.2)
    for removal, (selection, method) in zip(removed, profiler.selections(trio, LAYER, 0.2, 0), strict=True):
        with torch.no_grad(), prune(workload.model, method) as trace:
            pruned = workload.prefill(use_cache=False).logits[0, -1]
        kept = trace.stages[0].kept[0].tolist()
        assert kept == sorted(ends.get(selection, kept))
        bound = norms = 0.0
        for i in set(range(36)) - set(kept):
            bound += found.current[row, i] * found.norms[row, i]
            norms += found.norms[row, i]
        assert (removal.selection, removal.kept) == (selection, len(kept)) == (selection, 7)
        assert removal.bound == pytest.approx(bound**2, rel=1e-12)
        assert removal.norms == pytest.approx(norms**2, rel=1e-12)
        expected = kl_div(pruned.log_softmax(0), dense.softmax(0), reduction="sum").item()
        assert removal.kl_nats == pytest.approx(expected, rel=1e-6) and expected > 0


def test_without_a_removal_bound_and_divergence_are_zero(workload: Workload, found: profiler.ByLayer):
    whole = remove(workload, found, Trio(retention=1.0), 1.0)
    assert len(whole) == 6
    assert all((removal.bound, removal.norms, removal.kl_nats) == (0, 0, 0) for removal in whole)


# --- the verb ---------------------------------------------------------------------------------------------------------


def line(checkpoint, *more: str) -> list[str]:
    asked = ["theory", "--model", str(checkpoint), "--device", "cpu", "--layers", "1,3", "--retention", "0.2,0.6"]
    return [*asked, "--asked", "10", *more]


@pytest.mark.slow
def test_the_verb_prints_one_document_and_its_report_is_rebuilt(capsys, tmp_path, checkpoint):
    assert run(line(checkpoint, "--out", str(tmp_path), "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"format", "version", "environment", "study", "stages", "layers"} <= set(printed)
    assert [stage["layer"] for stage in printed["stages"]] == [1, 3]
    assert set(printed["stages"][0]["spearman"]) == {"value", "ci95", "samples"}
    assert printed["stages"][0]["kept"] == [7, 22] and len(printed["stages"][0]["removals"]) == 10 * 2 * 6
    assert len(printed["layers"]) == 6 and printed["layers"][-1]["last_layer_agreement"]["value"] == pytest.approx(1)
    (tmp_path / "report.html").unlink()
    assert run(["report", str(tmp_path)]) == 0
    assert "Agreement with" in capsys.readouterr().out and (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_what_was_asked_before_an_interruption_is_kept(checkpoint, monkeypatch, tmp_path):
    whole = profiler.by_layer
    calls = iter(range(100))

    def breaks(*arguments):
        if next(calls) == 11:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(profiler, "by_layer", breaks)
    study = make("theory", model=str(checkpoint), layers=(1,), retentions=(0.5,), fidelity_inputs=14)
    with pytest.raises(KeyboardInterrupt):
        running.run(study, tmp_path)
    assert running.read(tmp_path).document.questions == 11
    monkeypatch.setattr(profiler, "by_layer", whole)
    assert running.run(study, tmp_path).document.questions == 14
    monkeypatch.setattr(profiler, "by_layer", lambda *_: pytest.fail("what is finished was measured again"))
    assert running.run(study, tmp_path).document.questions == 14


def test_bad_input_is_one_line(capsys, checkpoint, photograph, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    copy(photograph, tmp_path)
    (tmp_path / "one.jsonl").write_text(json.dumps({"image": photograph.name, "question": "What is it?"}))
    for arguments, says in (
        (["--asked", "9"], "--asked 9"),
        (["--layers", "6"], "layers (6,)"),
        (["--attention", "flex_attention"], "no backward on a CPU"),
        (["--questions", "one.jsonl"], "one.jsonl: 1 questions; an interval over them needs at least 10"),
    ):
        assert run(line(checkpoint, *arguments)) == 2
        errors = [text for text in capsys.readouterr().err.splitlines() if "error:" in text]
        assert len(errors) == 1 and says in errors[0]


def test_the_theory_has_no_cells_and_is_timed_by_its_questions(checkpoint):
    study = make("theory", model=str(checkpoint), layers=(1,), retentions=(0.5,), fidelity_inputs=12)
    found = find("theory").load("preview")(study)
    assert found.cells == () and found.seconds_reason is None
    assert found.seconds is not None and found.seconds > 0
