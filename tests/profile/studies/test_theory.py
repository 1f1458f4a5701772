"""The paper's theory, tested: against plain autograd in float64, plain loops, counts by hand and scipy."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch.nn.functional import kl_div

from tests.profile.examples import environment
from trio_core import Trio, prune
from trio_profile import render as report
from trio_profile.analysis import theory as analysis
from trio_profile.cli import run
from trio_profile.findings import theory as pages
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import removals as profiler
from trio_profile.records.schema import Removal, Study
from trio_profile.studies import theory
from trio_profile.studies.plan import make

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


@pytest.fixture(scope="module")
def removed(workload: Workload, found: profiler.ByLayer) -> list[Removal]:
    return list(remove(workload, found, Trio(retention=1.0), (0.2, 0.5, 1.0)))


def remove(workload, found, trio, shares):
    return profiler.removals(workload, workload.inputs, found, trio, layers=(LAYER,), shares=shares, question=0, seed=0)


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


def test_saliencies_are_plain_autograd_s(found: profiler.ByLayer, by_hand):
    for ours, plain in zip((found.current, found.last, found.norms), by_hand, strict=True):
        assert ours.shape == (6, 36)
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


@pytest.mark.parametrize("rows", ["last", "shifted"])
@pytest.mark.parametrize("probe", ["next", "current"])
def test_a_layer_s_own_saliency_is_what_trio_ranks_by(workload: Workload, probe, rows):
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
    with torch.inference_mode():
        again = profiler.by_layer(workload, workload.inputs, K_POS, "last")
    np.testing.assert_array_equal(again.last, found.last)
    assert hooks() == before
    assert all(parameter.grad is None for parameter in workload.model.parameters())


def test_questions_are_put_as_every_other_profiler_puts_them():
    work = build(make(model="pocket", fidelity_inputs=10))
    samples = list(profiler.inputs(work, 0, 0))
    assert len(samples) == 10
    for numbers, together in work.asked_together():
        for row, number in enumerate(numbers):
            assert torch.equal(samples[number]["input_ids"][0], together["input_ids"][row])
            assert torch.equal(samples[number]["pixel_values"][0], together["pixel_values"][row])


def test_the_last_layer_agrees_with_itself(found: profiler.ByLayer):
    *_, last = analysis.by_depth([found.current], [found.last])
    assert last.last_layer_agreement is not None
    assert last.last_layer_agreement.value == pytest.approx(1) and last.top_overlap.value == 1


def test_the_bound_is_a_plain_loop_over_the_removed(workload: Workload, found: profiler.ByLayer):
    for probe, row in (("next", LAYER), ("current", LAYER - 1)):
        trio = Trio(retention=1.0, probe=probe)
        for removal, (choice, method) in zip(
            remove(workload, found, trio, (0.2,)), profiler.choices(trio, LAYER, 0.2, 0), strict=True
        ):
            with torch.no_grad(), prune(workload.model, method) as trace:
                workload.prefill(use_cache=False)
            kept = trace.stages[0].kept[0].tolist()
            bound = norms = 0.0
            for i in set(range(36)) - set(kept):
                bound += found.current[row, i] * found.norms[row, i]
                norms += found.norms[row, i]
            assert (removal.choice, removal.kept) == (choice, len(kept)) == (choice, 7)
            assert removal.bound == pytest.approx(bound**2, rel=1e-12)
            assert removal.norms == pytest.approx(norms**2, rel=1e-12)


def test_divergence_is_torch_s(workload: Workload, removed: list[Removal]):
    dense = workload.prefill(use_cache=False).logits[0, -1]
    method = dict(profiler.choices(Trio(retention=1.0), LAYER, 0.5, 0))["lowest saliency"]
    with prune(workload.model, method):
        pruned = workload.prefill(use_cache=False).logits[0, -1]
    [ours] = [one for one in removed if one.choice == "lowest saliency" and one.kept == 18]
    expected = kl_div(pruned.log_softmax(0), dense.softmax(0), reduction="sum").item()
    assert ours.kl_nats == pytest.approx(expected, rel=1e-6) and expected > 0


def test_nothing_removed_is_nothing_bounded_and_nothing_moved(removed: list[Removal]):
    whole = [one for one in removed if one.kept == 36]
    assert len(whole) == 6
    assert all((one.bound, one.norms, one.kl_nats) == (0, 0, 0) for one in whole)


def test_the_rankings_ends_have_the_ends_of_the_saliency(workload: Workload, found: profiler.ByLayer):
    order = np.argsort(-found.current[LAYER], kind="stable")
    for choice, expected in (("highest saliency", order[:7]), ("lowest saliency", order[-7:])):
        method = dict(profiler.choices(Trio(retention=1.0), LAYER, 0.2, 0))[choice]
        with torch.no_grad(), prune(workload.model, method) as trace:
            workload.prefill(use_cache=False)
        assert trace.stages[0].kept[0].tolist() == sorted(expected.tolist())


# --- what is made of them ------------------------------------------------------------------------------------------


def test_rank_correlation_is_scipy_s():
    draw = np.random.default_rng(0)
    x, y = draw.integers(6, size=(2, 5, 20)).astype(float)
    expected = [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(analysis.rank_correlation(x, y), expected)
    assert np.isnan(analysis.rank_correlation(np.ones(4), np.arange(4.0)))


def test_tokens_above_the_mean_and_the_top_are_counted_by_hand():
    current = np.array([[1.0, 2.0, 3.0, 10.0], [5.0, 5.0, 5.0, 5.0], [9.0, 9.0, 9.0, 1.0]])
    last = np.array([[1.0, 2.0, 3.0, 10.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    layers = analysis.by_depth([current, current], [last, last])
    assert [layer.above_mean.value for layer in layers] == [1, 0, 3]
    assert [layer.top_overlap.value for layer in layers] == [1, 1, 0]  # ties go to the lower index
    assert layers[1].last_layer_agreement is None  # nothing varies
    assert layers[0].above_mean.ci95 == (1, 1) and layers[0].above_mean.samples == 2
    # The top 11 % of 20 are 2.
    x, y = np.arange(20.0), np.array([*range(18), 30.0, 5.5])
    assert analysis.top_overlap(x, y) == 0.5


def test_agreement_that_grows_with_depth_is_said_to():
    last = [np.tile(np.arange(5.0), (4, 1))] * 3
    grows = [np.array([[4.0, 3, 2, 1, 0], [1, 0, 4, 2, 3], [0, 1, 2, 4, 3], [0, 1, 2, 3, 4]])] * 3
    found = analysis.agreement_trend(grows, last)
    assert found is not None and (found.value, found.ci95, found.samples) == (1, (1, 1), 3)
    falls = analysis.agreement_trend([one[[2, 1, 0, 3]] for one in grows], last)
    assert falls is not None and falls.value == -1
    assert analysis.agreement_trend([one[:2] for one in grows], [one[:2] for one in last]) is None  # one layer below
    assert analysis.agreement_trend([np.ones((4, 5))] * 3, last) is None


def removal(question: int, kept: int, bound: float, norms: float, kl: float, layer: int = 1) -> Removal:
    return Removal(question=question, layer=layer, choice="random", kept=kept, bound=bound, norms=norms, kl_nats=kl)


def test_a_stage_s_correlations_are_those_of_a_plain_loop():
    draw = np.random.default_rng(1)
    removals = [removal(q, kept, *draw.random(3)) for q in range(12) for kept in (5, 9) for _ in range(4)]
    found = analysis.stage(1, [*removals, removal(0, 5, 1, 1, 1, layer=2)])

    def rho(some, term="bound"):
        return spearmanr([getattr(one, term) for one in some], [one.kl_nats for one in some]).statistic

    def those(q, kept=None):
        return [one for one in removals if one.question == q and kept in (None, one.kept)]

    assert found.kept == (5, 9) and len(found.removals) == 96
    for ours, expected in (
        (found.spearman, rho(removals)),
        (found.within_question, np.mean([rho(those(q)) for q in range(12)])),
        (found.same_kept, np.mean([rho(those(q, kept)) for q in range(12) for kept in (5, 9)])),
        (found.norms_same_kept, np.mean([rho(those(q, kept), "norms") for q in range(12) for kept in (5, 9)])),
    ):
        assert ours is not None and ours.value == pytest.approx(expected) and ours.samples == 12
        assert ours.ci95[0] < ours.value < ours.ci95[1]
    assert found.least_constant == max(one.kl_nats / one.bound for one in removals)
    assert all(one.kl_nats <= found.least_constant * one.bound * (1 + 1e-12) for one in removals)


def test_intervals_draw_questions_and_not_removals():
    """What a question says twice as often is no more certain."""
    values = np.random.default_rng(2).random((2, 15, 8))
    once, twice = (
        analysis.stage(1, [removal(q, 5, a, 1, b) for q in range(15) for a, b in some[:, q].T])
        for some in (values, np.concatenate([values, values], axis=-1))
    )
    assert once.spearman is not None and once.spearman == twice.spearman
    assert once.norms_same_kept is None


def test_nothing_removed_leaves_nothing_to_correlate():
    found = analysis.stage(1, [removal(q, 9, 0, 0, 0) for q in range(10) for _ in range(3)])
    assert found.spearman is found.within_question is found.same_kept is found.least_constant is None


def document(**fields) -> analysis.TheoryDocument:
    draw = np.random.default_rng(3)
    removals = [removal(q, kept, *draw.random(3)) for q in range(10) for kept in (5, 9) for _ in range(4)]
    saliency = [draw.random((4, 20)) for _ in range(10)]
    return analysis.TheoryDocument(
        environment=environment(),
        study=Study(),
        questions=10,
        visual_tokens=20,
        probe="next",
        rows="last",
        k_pos=4,
        stages=(analysis.stage(1, removals),),
        layers=analysis.by_depth(saliency, saliency),
        agreement_trend=analysis.agreement_trend(saliency, saliency),
        **fields,
    )


def test_the_report_has_a_page_for_each_claim():
    built = pages.report(document())
    assert [page.id for page in built.pages] == ["bound", "agreement", "counts"]
    html = report.render(built)
    assert "After layer 1" in html and "figure-bound" in html and "1.00 [1.00, 1.00]" in html


def test_a_report_of_nothing_that_varies_says_so():
    still = analysis.stage(1, [removal(q, 9, 0, 0, 0) for q in range(10) for _ in range(3)])
    flat = analysis.by_depth([np.ones((1, 20))] * 10, [np.ones((1, 20))] * 10)
    html = report.render(pages.report(document().model_copy(update={"stages": (still,), "layers": flat})))
    assert "nothing was removed" in html and "No layer" in html


# --- the verb ------------------------------------------------------------------------------------------------------


def line(checkpoint, *more: str) -> list[str]:
    asked = ["theory", "--model", str(checkpoint), "--device", "cpu", "--layers", "1,3", "--retention", "0.2,0.6"]
    return [*asked, "--asked", "10", *more]


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
    assert "agrees with" in capsys.readouterr().out and (tmp_path / "report.html").exists()


def test_no_constant_holds_where_a_term_of_nothing_moved_something():
    removals = [
        Removal(question=q, layer=1, choice="trio", kept=3, bound=bound, norms=1.0, kl_nats=kl)
        for q, (bound, kl) in enumerate([(0.0, 1.0), (1.0, 2.0), (2.0, 1.0)])
    ]
    assert analysis.stage(1, removals).least_constant is None
    assert analysis.stage(1, removals).median_ratio == 1.25
    still = [removals[0].model_copy(update={"kl_nats": 0.0}), *removals[1:]]
    assert analysis.stage(1, still).least_constant == 2.0


def test_what_was_asked_before_an_interruption_is_kept(checkpoint, monkeypatch):
    kept: list[analysis.TheoryDocument] = []
    whole = profiler.by_layer
    calls = iter(range(100))

    def breaks(*arguments):
        if next(calls) == 11:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(profiler, "by_layer", breaks)
    study = Study(model=str(checkpoint), layers=(1,), retentions=(0.5,), fidelity_inputs=14)
    with pytest.raises(KeyboardInterrupt):
        theory.run(study, keep=kept.append)
    assert [one.questions for one in kept] == [11]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--asked", "9"], "--asked 9"),
        (["--layers", "6"], "layers (6,)"),
        (["--layers", "0"], "layers (0,)"),
        (["--retention", "1.5"], "retentions.0 = 1.5"),
        (["--retention", "0"], "retention 0"),
        (["--option", "probe=previous"], "probe"),
        (["--option", "tokens=all"], "leave the option tokens out"),
        (["--option", "k_pos=400"], "k_pos 400"),
        (["--attention", "flex_attention"], "no way back on a CPU"),
        (["--questions", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--questions", "one.jsonl"], "one.jsonl: 1 questions; an interval over them needs at least 10"),
    ],
)
def test_bad_input_is_one_line(capsys, checkpoint, photograph, monkeypatch, tmp_path, arguments: list[str], says: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_text(json.dumps({"image": str(photograph), "question": "What is it?"}))
    assert run(line(checkpoint, *arguments)) == 2
    errors = [text for text in capsys.readouterr().err.splitlines() if "error:" in text]
    assert len(errors) == 1 and says in errors[0]
