"""A document of `layers`, made by hand, and a kept study of the kind."""

from tests.profile import examples
from tests.profile.examples import ms, ratio
from trio_profile.cost.factors import FormulaTotal, Gammas
from trio_profile.judge.attribution import Part, attribute
from trio_profile.kinds.layers.document import (
    Efficiency,
    LayersDocument,
    LayerTimes,
    PartTimes,
    PrefillTimes,
    StageTimes,
    Totals,
)
from trio_profile.records.documents import write_document
from trio_profile.records.estimate import MeasuredShare
from trio_profile.records.schema import Retention


def layers_document() -> LayersDocument:
    """Four layers, with a stage after the second. The formula claims 2.5×, and 1.33× were measured."""
    parts = [
        Part(name="layers 1 to 2", dense_ms=20, pruned_ms=20, macs_ratio=1.0),
        Part(name="layers 3 to 4", dense_ms=20, pruned_ms=6, macs_ratio=0.2),
        Part(name="selection", dense_ms=0, pruned_ms=4),
    ]
    cell = PrefillTimes(
        method="trio",
        retention=Retention(nominal=0.5, layer_average=0.5, final_layer=0.2, realised=0.5),
        layers=(_layer(1, 636, 10), _layer(2, 636, 10), _layer(3, 124, 3), _layer(4, 124, 3)),
        stages=(StageTimes(layer=2, tokens_before=576, tokens_after=64, selection_ms=ms(3.5), compaction_ms=ms(0.5)),),
        parts=(PartTimes(name="lm_head", ms=ms(0.2), dense_ms=ms(0.3)),),
        totals=Totals(
            prefill_ms=ms(30),
            dense_prefill_ms=ms(40),
            prefill_speedup=ratio(1.33),
            named=_exactly(0.975),
            dense_named=_exactly(0.994),
            instrumented=ratio(1.02),
            dense_instrumented=ratio(1.01),
        ),
        claimed_ratio=2.5,
        attribution=tuple(attribute(2.5, parts)),
        decode=PartTimes(name="decode of 7 tokens", ms=ms(69), dense_ms=ms(70)),
        stage_layers=(2,),
        budgets=(64,),
        efficiency=_efficiency(0.21),
    )
    return LayersDocument(environment=examples.environment(), study=examples.study(), **dict(cell), cells=(cell,))


def layers_at(*retentions: float) -> LayersDocument:
    """The same prefill at several retentions."""
    one = layers_document()
    shares = [Retention(**dict.fromkeys(Retention.model_fields, share)) for share in retentions]
    cells = tuple(one.cells[0].model_copy(update={"retention": share}) for share in shares)
    return one.model_copy(update={**dict(cells[0]), "cells": cells})


def _efficiency(factor: float) -> Efficiency:
    """A prefill whose selection costs this factor of a forward. The formula has F_inf = 30, F_ov = 10 γ, dense 100."""
    gammas = Gammas(assumed=1, declared=factor, counted=factor)
    macs = {"assumed": 40, "declared": round(30 + 10 * factor), "counted": 32}
    return Efficiency(
        fastv_macs=40,
        dense_fastv_macs=100,
        fastv_saved=0.6,
        gammas=gammas,
        formula_totals=tuple(
            FormulaTotal(factor=name, value=getattr(gammas, name), fastv_macs=work, fastv_saved=1 - work / 100)
            for name, work in macs.items()
        ),
        counted_macs=70,
        dense_counted_macs=100,
        kv_bytes=2**20,
        dense_kv_bytes=2**21,
        forward_ms=ms(26),
        dense_forward_ms=ms(40),
        backward_ms=ms(2),
        selection_ms=ms(3.5),
        compaction_ms=ms(0.5),
        total_ms=ms(99),
        dense_total_ms=ms(110),
        total_speedup=ratio(1.11),
    )


def _layer(number: int, tokens: int, time: float) -> LayerTimes:
    return LayerTimes(layer=number, tokens=tokens, dense_tokens=636, forward_ms=ms(time), dense_forward_ms=ms(10))


def _exactly(value: float) -> MeasuredShare:
    return MeasuredShare(value=value, ci95=(value, value), samples=12, stopped="converged")


KEPT = {"layers": lambda directory: write_document(directory / "layers.json", layers_document())}
