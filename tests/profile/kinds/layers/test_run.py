"""`trio-profile layers`: one document, its trace and its report."""

import json
from pathlib import Path

import pytest

from tests.profile.faking import FakeClock, FakeTables
from trio_profile.kinds.layers import run as layers
from trio_profile.kinds.layers.document import STAGE_PARTS
from trio_profile.kinds.layers.report import report
from trio_profile.records.schema import Study

pytestmark = pytest.mark.usefixtures("without_fvcore")


@pytest.fixture(scope="module")
def order() -> list[str]:
    """What a study ran, one after the other: `p` for a round of prefills, `g` for one of whole generations."""
    return []


@pytest.fixture(scope="module")
def profiled(tiny_study: Study, order: list[str], without_fvcore, tmp_path_factory) -> layers.LayersDocument:
    """Two retentions, with a GPU whose table is small.

    The clock gives every part the same time in each round: sums of medians are then the medians of sums.
    """

    def noted(name: str, run):
        return lambda *given: (order.append(name), run(*given))[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "tables", lambda _: [FakeTables()])
        patch.setattr(layers, "_round", noted("p", layers._round))
        patch.setattr(layers.rounds, "measure", noted("g", layers.rounds.measure))
        study = tiny_study.model_copy(update={"seconds": 0.01, "gpu": "fake"})
        return layers.run(study, tmp_path_factory.mktemp("trace"), clock=FakeClock())


def test_the_document_tells_of_every_layer_and_stage(profiled):
    assert [layer.layer for layer in profiled.layers] == list(range(1, len(profiled.layers) + 1))
    assert profiled.layers[0].tokens == profiled.layers[0].dense_tokens > profiled.layers[-1].tokens
    assert profiled.stages
    for stage in profiled.stages:
        assert stage.tokens_after < stage.tokens_before
        assert stage.backward_ms is not None and stage.proxy_loss_ms is not None
        assert stage.backward_ms.value < stage.selection_ms.value
    assert 0 < profiled.totals.named.value < 1
    assert profiled.totals.prefill_speedup.samples >= 6


def test_several_retentions_are_cells_and_the_lowest_keeps_the_old_names(profiled):
    first, second = profiled.cells
    assert [cell.retention.nominal for cell in profiled.cells] == [0.4, 0.8]
    assert (profiled.layers, profiled.stages, profiled.totals) == (first.layers, first.stages, first.totals)
    assert second.layers[-1].tokens > first.layers[-1].tokens
    assert len(first.budgets) == len(first.stage_layers)


def test_generations_are_measured_in_turn_with_prefills(profiled, order: list[str]):
    """Measured after all prefills, a quiet minute makes a whole generation look faster than its prefill."""
    assert "".join(order).startswith("pgpgpg") and order.count("g") >= layers.WARMUPS + layers.LEAST_ROUNDS


def test_the_totals_are_those_of_the_parts(profiled):
    for cell in profiled.cells:
        row = cell.efficiency
        assert row.forward_ms.value == pytest.approx(sum(layer.forward_ms.value for layer in cell.layers))
        assert row.dense_forward_ms.value == pytest.approx(sum(layer.dense_forward_ms.value for layer in cell.layers))
        for name in (f"{part}_ms" for part in STAGE_PARTS):
            assert getattr(row, name).value == pytest.approx(sum(getattr(stage, name).value for stage in cell.stages))
        assert row.counted_macs < row.dense_counted_macs and row.kv_bytes < row.dense_kv_bytes


@pytest.mark.slow
def test_saved_is_the_papers_ratio_with_gamma_and_with_the_counted_factor(profiled, tiny_study: Study):
    """Saved = 1 − F_total / (L · f(V0)); `flops` says the same of the same cell."""
    flops = pytest.importorskip("trio_profile.kinds.flops.run")
    counted = flops.run(tiny_study.model_copy(update={"verb": "flops", "retentions": (0.4,)}))
    row = profiled.cells[0].efficiency
    assert row.fastv_saved == counted.claimed.fastv_saved == pytest.approx(1 - row.fastv_macs / row.dense_fastv_macs)
    assert row.formula_totals == counted.formula_totals and row.gammas == counted.gammas


@pytest.mark.slow
def test_a_method_without_a_proxy_loss_has_empty_columns_and_never_0(tiny_study: Study):
    asked = tiny_study.model_copy(update={"methods": ("divprune",), "seconds": 0.01, "retentions": (0.4,)})
    row = layers.run(asked).efficiency
    assert row.proxy_loss_ms is row.backward_ms is None and row.formula_totals == ()
    assert row.selection_ms.value > 0 and row.fastv_saved > 0


def test_the_walk_goes_from_the_dense_prefill_that_is_printed_to_the_pruned_one(profiled):
    """Fresh, it said 153 ms where its bars ended at 109, and 6.46× of 435 ms where the first bar said 50.9."""
    for cell in profiled.cells:
        totals, first = cell.totals, cell.attribution[0]
        assert sum(step.added_ms for step in cell.attribution) == pytest.approx(totals.prefill_ms.value)
        assert first.added_ms * cell.claimed_ratio == pytest.approx(totals.dense_prefill_ms.value)
        assert first.speedup == cell.claimed_ratio
        assert "prefill" not in {step.name for step in cell.attribution}, "a bar holds the whole prefill"


def test_the_trace_is_what_a_trace_viewer_reads(profiled):
    events = json.loads(Path(profiled.trace).read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"dense", "pruned to 40 %", "pruned to 80 %"}
    spans = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    whole = next(event for event in spans if event["name"] == "prefill" and event["pid"] == 2)
    inside = [event for event in spans if event["pid"] == 2]
    assert all(event["ts"] + event["dur"] <= whole["dur"] * 1.001 + 1 for event in inside)
    assert {"selection", "backward", "proxy_loss", "compaction"} <= {event["name"] for event in inside}


@pytest.mark.slow
def test_retentions_that_print_alike_have_a_process_each_in_the_trace(tiny_study: Study, tmp_path):
    close = tiny_study.model_copy(update={"seconds": 0.01, "retentions": (0.4001, 0.4004)})
    found = layers.run(close, tmp_path)
    events = json.loads(Path(found.trace or "").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["dense", "pruned to 40.01 %", "pruned to 40.04 %"]


def test_a_gpu_adds_the_operators_of_an_engine_to_each_layer(profiled):
    assert profiled.layers[0].operators_ms > profiled.layers[-1].operators_ms > (0, 0)
    assert "operators of an engine" in str(report(profiled).pages)
