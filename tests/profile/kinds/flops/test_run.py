"""`trio-profile flops`: one document from the claim to both counters, with weights or without."""

import json

import pytest

from tests.profile.command import complaint
from tests.profile.inputs.test_builtin import macs
from tests.profile.studying import make
from trio_core import UnsupportedInput, methods
from trio_core.rules.schedule import Schedule
from trio_profile.cli import run
from trio_profile.cost.formula import fastv_inference, fastv_macs, fastv_overhead
from trio_profile.kinds.flops import run as flops
from trio_profile.profilers import flops_counted
from trio_profile.records.schema import Study


def counted(**fields: object) -> flops.FlopsDocument:
    return flops.run(make("flops", **{"text_tokens": 20, **fields}))


@pytest.fixture(scope="module")
def pruned(tiny_study: Study) -> flops.FlopsDocument:
    """One prefill of a small checkpoint, pruned by TRIO."""
    return flops.run(tiny_study.model_copy(update={"verb": "flops", "retentions": tiny_study.retentions[:1]}))


def test_a_checkpoint_reconciles_with_both_counters(pruned: flops.FlopsDocument, tiny_study: Study):
    assert pruned.residual_macs == 0
    assert pruned.counted.fvcore_residual_macs == 0
    assert pruned.complete and pruned.selection_counted
    assert pruned.analytic_macs == pruned.counted.torch_flops // 2
    gammas, decoding = pruned.gammas, pruned.decoding
    assert gammas is not None and gammas.counted is not None and gammas.tail is not None and gammas.autograd is not None
    assert gammas.assumed == 1
    assert 0 < gammas.counted <= gammas.declared == gammas.tail < 1 < gammas.autograd
    assert decoding.steps == tiny_study.new_tokens - 1 == 2
    assert decoding.residual_macs == 0
    assert pruned.retention is not None
    assert pruned.retention.realised == pytest.approx(pruned.retention.layer_average)


def test_the_ledger_has_every_operator_and_adds_up_to_the_count(pruned: flops.FlopsDocument):
    assert sum(part.flops for part in pruned.ledger) == pruned.counted.torch_flops
    formulas = {part.op: part.formula for part in pruned.ledger}
    assert formulas["aten.mm"] == "torch"
    assert formulas["aten._scaled_dot_product_flash_attention_for_cpu"] == "trio-profile"
    uncounted = {part.op: part for part in pruned.uncounted}
    assert not uncounted.keys() & formulas.keys() and not any(part.product for part in pruned.uncounted)
    assert uncounted["aten.silu"].output_bytes > 0
    assert uncounted["aten.silu"].calls == 6 + 3  # decoder layers, and a probed one at each stage


@pytest.mark.slow
def test_the_count_without_weights_equals_the_count_with_them(monkeypatch):
    """What no formula of ours computes is the same module by module, and so the total."""
    monkeypatch.setattr(flops_counted, "fvcore", lambda *_: (None, "not asked"))
    real, meta = (counted(retentions=(0.5,), methods=("fastv",), device=device) for device in ("cpu", "meta"))
    assert meta.residual_macs == real.residual_macs == 0
    assert meta.counted.torch_flops == real.counted.torch_flops
    assert meta.terms == real.terms
    assert meta.decoding == real.decoding
    assert meta.decoding.residual_macs == 0
    assert not meta.selection_counted and meta.counted.fvcore_reason


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llava-next-7b", "qwen2.5-vl-7b"])
def test_true_sizes_reconcile_without_weights(model: str):
    document = counted(model=model, device="meta", retentions=(0.111,))
    assert document.residual_macs == 0
    assert document.complete
    assert document.decoding.residual_macs == 0


def fastv_saved(by_layer, stage_tokens, d: int, m: int, gamma: float = 1) -> float:
    """1 − (F_inf + F_ov) / (L · f(V0))."""
    total = fastv_inference(by_layer, d, m) + fastv_overhead(stage_tokens, d, m, gamma)
    return 1 - total / (len(by_layer) * fastv_macs(by_layer[0], d, m))


@pytest.mark.slow
def test_saved_is_the_papers_formula_with_each_overhead_factor():
    """At the published budgets of LLaVA-1.5-7B, or near them: the retention of 64 of 576 tokens."""
    document = counted(model="llava-1.5-7b", device="meta", retentions=(64 / 576,), new_tokens=1)
    stages = (576, *document.budgets[:-1])
    by_layer = Schedule(document.layers, document.budgets, 576, 32).tokens_by_layer
    assert document.claimed.fastv_saved == pytest.approx(fastv_saved(by_layer, stages, 4096, 11008))
    assert [total.factor for total in document.formula_totals] == ["assumed", "declared", "autograd", "tail"]
    for total in document.formula_totals:
        assert total.fastv_saved == pytest.approx(fastv_saved(by_layer, stages, 4096, 11008, total.value))
    assert document.formula_totals[0].fastv_macs == document.claimed.fastv_macs


def test_a_method_without_a_proxy_loss_has_no_overhead_in_the_formula():
    pruned = counted(model="pocket-deep", device="meta", retentions=(0.5,), methods=("fastv",), new_tokens=1)
    by_layer = Schedule(pruned.layers, pruned.budgets, 576, 32).tokens_by_layer
    assert pruned.claimed.fastv_saved == pytest.approx(fastv_saved(by_layer, (), 256, 688))
    assert pruned.formula_totals == ()


def test_the_work_of_a_tower_that_is_thinned_out_is_unknown_on_meta():
    with pytest.raises(UnsupportedInput, match=r"'pixelprune' chooses by pixels .* count on the cpu"):
        counted(model="qwen2.5-vl-7b", device="meta", retentions=(0.5,), methods=("pixelprune",), new_tokens=1)


def of_each_schedule() -> list[str]:
    """The first method of each schedule. Without a selection's count, methods differ by their schedules alone."""
    found: dict[object, str] = {}
    for name in ("trio", *sorted(methods.names())):
        if methods.find(name).media == "videos":  # the model shows a picture
            continue
        schedule = methods.find(name)(retention=0.5).schedule(576, 32)
        found.setdefault((schedule.layers, schedule.budgets), name)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted({*of_each_schedule()} - {"pyramiddrop"}))
def test_a_true_size_reconciles_under_every_schedule(method: str):
    """But PyramidDrop's, whose first layers cost more than a ninth."""
    document = counted(model="llava-1.5-7b", device="meta", retentions=(0.5,), methods=(method,), new_tokens=1)
    assert document.residual_macs == 0


@pytest.mark.slow
def test_a_printed_figure_is_walked_to_the_count():
    study = make("flops", model="llava-1.5-7b", device="meta", text_tokens=50, new_tokens=1)
    document = flops.run(study.model_copy(update={"claimed": "8.48e12"}))
    printed = document.printed
    assert printed is not None
    assert (printed.convention, document.conventions[0].printed) == ("all-ffn3-heads-flops", "rounded")
    assert printed.figure + sum(term.macs for term in printed.terms) == document.counted.torch_flops // 2
    assert printed.residual_macs == 0
    against = flops.run(study.model_copy(update={"claimed": "8.48e12", "convention": "visual-ffn2-macs"})).printed
    assert against is not None
    assert (against.convention, against.residual_macs) == ("visual-ffn2-macs", 0)
    assert against.terms[0].macs == document.claimed.fastv_macs - 8_480_000_000_000


@pytest.mark.slow
def test_halved_causal_attention_changes_only_the_analytic_total(without_fvcore):
    study = make("flops", model="pocket-deep", device="meta", text_tokens=20, new_tokens=1)
    whole, half = (flops.run(study.model_copy(update={"causal": causal})) for causal in ("dense", "half"))
    assert whole.analytic_macs - half.analytic_macs == 32 * (2 * 596 * 596 - 596 * 597) * 256
    assert whole.counted == half.counted


def test_the_verb_prints_a_table_or_one_document(capsys, monkeypatch):
    line = ["flops", "--model", "pocket", "--device", "meta", "--retention", "0.111", "--claimed", "1.2345e9"]
    line += ["--new-tokens", "1"]
    monkeypatch.setattr(flops_counted, "fvcore", lambda *_: (None, "not asked"))
    assert run([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["residual_macs"] == 0
    assert {"format", "version", "environment", "study", "claimed", "counted", "terms", "uncounted"} <= set(document)
    assert document["conventions"][0]["printed"] == "no"
    assert run([*line, "--unit", "flops", "--causal", "half"]) == 0
    table = capsys.readouterr().out
    assert "residual" in table and "FLOPs" in table and "halved" in table


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--method", "trio"], "--retention"),
        (["--retention", "0.001"], "lowest possible"),
        (["--claimed", "lots"], "--claimed 'lots'"),
        (["--claimed", "2e12", "--convention", "guess"], "convention 'guess' is none of"),
        (["--convention", "visual-ffn2-macs"], "give --claimed too"),
        (["--text-tokens", "900000"], "text_tokens = 900000"),
        (["--model", ".", "--device", "meta"], "meta"),
        (
            ["--model", "qwen2.5-vl-7b", "--device", "meta", "--retention", "0.3", "-o", "positions=compact"],
            "positions 'compact' are not defined",
        ),
    ],
)
def test_bad_input_is_one_line(capsys, arguments: list[str], says: str):
    assert says in complaint(capsys, "flops", *arguments)


def test_the_headline_of_the_paper_is_named_without_weights():
    document = flops.run(
        make("flops", model="llava-next-7b", device="meta", new_tokens=1).model_copy(update={"claimed": "16.67e12"})
    )
    first, printed = document.conventions[0], document.printed
    assert document.claimed.fastv_saved is None  # of the dense model
    assert (first.code, first.visual_tokens, first.value) == ("visual-ffn2-macs", 2880, 16_669_841_817_600)
    assert first.counted_by.startswith("the picture without its 48 line ends; llava-next-7b in")
    assert printed is not None and printed.convention == "visual-ffn2-macs"
    terms = {term.name: term.macs for term in printed.terms}
    assert terms["visual tokens: 2928, not 2880"] == document.claimed.fastv_macs - first.value
    assert printed.figure + sum(terms.values()) == document.counted.torch_flops // 2
    assert printed.residual_macs == 0


@pytest.mark.slow
def test_a_pruned_figure_names_gamma_for_each_number_of_tokens():
    study = make("flops", model="llava-next-7b", device="meta", retentions=(0.111,), new_tokens=1)
    document = flops.run(study.model_copy(update={"claimed": "2.68e12"}))
    gammas = {found.visual_tokens: found.gamma for found in document.conventions if found.gamma}
    assert set(gammas) == {None, 2880, 2252}
    low, high = gammas[2880] or (0, 0)
    assert 1.52 < low < high < 1.56


@pytest.mark.slow
def test_tokenpacker_at_its_true_size_reconciles_and_costs_less_than_it_saves():
    document = flops.run(make("flops", model="tokenpacker-7b", device="meta", text_tokens=60, new_tokens=1))
    assert document.residual_macs == 0
    assert document.complete
    assert document.visual_tokens == 144
    terms = {term.name: term.macs for term in document.terms}
    projector = macs(144, 576, 1024, 4, 4096)
    assert terms["model.multi_modal_projector: no formula, as counted"] == projector == 10_721_820_672
    whole = flops.run(make("flops", model="llava-1.5-7b", device="meta", text_tokens=60, new_tokens=1))
    assert projector < 576 * (1024 * 4096 + 4096 * 4096)  # LLaVA's own, over all patches
    assert document.counted.torch_flops < 0.5 * whole.counted.torch_flops
