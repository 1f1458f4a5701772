"""Documents of the kinds that are measured in one go, made by hand, and a kept study of every kind.

layers_document()      a prefill of four layers, with a stage after the second
layers_at(0.1, 0.5)    the same at several retentions
evaluation()           the dense model and three cells on three tasks
endpoints_document()   two servers at four loads, with a break-even between 4 and 8
swept()                a sweep in four processes
with_tokens(sweep)     the same sweep with a photograph of 576 tokens
keep(DIR, study, cells)  keeps cells in the sessions that they name
KEPT["audit"](DIR)     puts a small study of this kind into a directory, as `--out` does
"""

import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
from PIL import Image

from tests.profile import examples
from tests.profile.faking import predicted
from tests.profile.studying import make
from trio_profile.cost.factors import FormulaTotal, Gammas
from trio_profile.judge.attribution import Part, attribute
from trio_profile.kinds.evaluation.document import (
    Benchmark,
    BenchmarkScore,
    EvaluatedCell,
    Evaluation,
    PrintedAverage,
    Refusal,
    Score,
    TaskSummary,
)
from trio_profile.kinds.grid.document import CellTokens, TokenMaps
from trio_profile.kinds.grid.sweep import SweepDocument, summarise
from trio_profile.kinds.layers.document import (
    Efficiency,
    LayersDocument,
    LayerTimes,
    PartTimes,
    PrefillTimes,
    StageTimes,
    Totals,
)
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.plan import prepare
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment, ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy, Load
from trio_profile.kinds.servers.summary import document_of
from trio_profile.records.documents import write_document
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio, Share, Tokens
from trio_profile.records.record import Record
from trio_profile.records.schema import (
    Cell,
    Environment,
    Measurement,
    Picture,
    Retention,
    Study,
    TokenGrid,
)
from trio_profile.records.store import Store
from trio_profile.study.kinds import KINDS

REPORTS = Path(__file__).parents[2] / "reports"
"""Published studies."""


# --- layers ----------------------------------------------------------------------------------------------------------


def ms(value: float, samples: int = 12) -> Milliseconds:
    """A time, known to ±10 %."""
    return Milliseconds(value=value, ci95=(0.9 * value, 1.1 * value), samples=samples, stopped="converged")


def ratio(value: float, samples: int = 12) -> Ratio:
    """A speed-up, known to ±0.05."""
    return Ratio(value=value, ci95=(value - 0.05, value + 0.05), samples=samples, stopped="budget")


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


# --- eval ------------------------------------------------------------------------------------------------------------


BENCHMARKS = (
    Benchmark(name="GQA", task="gqa", metrics=("exact_match,none",), scale=100, printed="GQA"),
    Benchmark(
        name="MME",
        task="mme",
        metrics=("mme_perception_score,none", "mme_cognition_score,none"),
        printed="MME",
    ),
    Benchmark(
        name="POPE",
        task="pope",
        metrics=("pope_f1_score,none",),
        scale=100,
        printed="POPE",
        differs="The score is F1 over all questions.",
    ),
)
UNPRUNED = {"GQA": 61.9, "MME": 1862.0, "POPE": 85.9}
"""The scores of the dense model."""


def evaluation() -> Evaluation:
    """The dense model and three cells on three tasks, with scores of the paper. A fourth cell is refused."""
    cells = (
        evaluated("trio", 0.333, {"GQA": 61.0, "MME": 1789.0, "POPE": 86.5}, 1.6),
        evaluated("fastv", 0.333, {"GQA": 52.7, "MME": 1612.0, "POPE": 64.8}, 1.5),
        evaluated("trio", 0.111, {"GQA": 58.0, "MME": 1681.0, "POPE": 84.3}, 2.4),
    )
    return Evaluation(
        environment=examples.environment(),
        lmms_eval="0.7.3",
        study=examples.study(
            verb="eval", methods=("fastv", "trio", "vtw"), retentions=(0.333, 0.111), tasks=("gqa", "mme", "pope")
        ),
        suite="trio:llava-1.5-7b",
        printed=(
            PrintedAverage(method="fastv", retention=0.333, average=0.890),
            PrintedAverage(method="trio", retention=0.333, average=0.988),
        ),
        benchmarks=BENCHMARKS,
        dense=evaluated("", 1.0, UNPRUNED, 1.0),
        cells=cells,
        refused=(Refusal(cell=Cell(method="vtw", retention=0.333), reason="vtw needs a deeper model"),),
    )


def evaluated(method: str, retention: float, values: dict[str, float], speedup: float) -> EvaluatedCell:
    """One row. Half the width of each interval is 1 % of dense. Without a method it is the dense model's."""
    seen: dict[str, Any] = {
        "retention": retention,
        "fastv_macs": 2.98e12 * retention,
        "kv_bytes": 302e6 * retention,
        "prefill_ms": ms(41 / speedup, 50),
        "total_ms": ms(61 / speedup**0.5, 50),
    }
    of_a_task = {"ttft_ms": ms(44 / speedup, 50)}
    if not method:
        scores = [BenchmarkScore(benchmark=name, value=value) for name, value in values.items()]
        tasks = tuple(map(_task, BENCHMARKS, scores, repeat(seen | of_a_task)))
        return EvaluatedCell(cell=None, tasks=tasks, benchmarks=tuple(scores), **seen)
    seen |= {"prefill_speedup": ratio(speedup, 50), "total_speedup": ratio(speedup**0.5, 50)}
    of_a_task |= {"ttft_speedup": ratio(speedup, 50), "same_answer": Share(value=0.9, ci95=(0.88, 0.92), samples=50)}
    scores = [_compared(name, value) for name, value in values.items()]
    average = sum(score.share or 0.0 for score in scores) / len(scores)
    return EvaluatedCell(
        cell=Cell(method=method, retention=retention),
        tasks=tuple(map(_task, BENCHMARKS, scores, repeat(seen | of_a_task))),
        benchmarks=tuple(scores),
        average=average,
        average_ci95=(average - 0.01, average + 0.01),
        **seen,
    )


def _compared(name: str, value: float) -> BenchmarkScore:
    """The score of a benchmark beside the dense model's."""
    dense = UNPRUNED[name]
    low, high = (value - dense + near * dense for near in (-0.01, 0.01))
    told = {"share": value / dense, "difference": value - dense, "ci95": (low, high)}
    return BenchmarkScore(benchmark=name, value=value, dense=dense, **told)


def _task(column: Benchmark, found: BenchmarkScore, seen: dict[str, Any]) -> TaskSummary:
    """The task of a column: as many scores as it has metrics, and times."""
    scores = tuple(
        Score(
            metric=key.removesuffix(",none"),
            filter="none",
            higher_is_better=True,
            value=found.value / column.scale / len(column.metrics),
            dense=None if found.dense is None else found.dense / column.scale / len(column.metrics),
            difference=None if found.difference is None else found.difference / column.scale / len(column.metrics),
            ci95=None if found.ci95 is None or column.name != "GQA" else (found.ci95[0] / 100, found.ci95[1] / 100),
        )
        for key in column.metrics
    )
    tokens = Tokens(value=2, ci95=(2, 2), samples=50, stopped="budget")
    return TaskSummary(task=column.task, questions=9000, scores=scores, tokens=tokens, **seen)


# --- several processes -----------------------------------------------------------------------------------------------


def swept(
    *, factor: float = 1.0, processes: int = 4, retentions=(0.11, 0.55), seed: int = 0, **fields
) -> SweepDocument:
    """A sweep in several processes. factor: how many times as long the pruned runs take."""
    asked = examples.study(retentions=retentions, **fields)
    cells = []
    for retention in retentions:
        timings = []
        for number in range(processes):
            one = examples.slowed(examples.measurement(retention=retention, pairs=12, seed=10 * seed + number), factor)
            timings.append(one.timings[0].model_copy(update={"session": f"{number}"}))
        cells.append(examples.measurement(retention=retention).model_copy(update={"timings": tuple(timings)}))
    sessions = [examples.session(id=f"{number}", environment=examples.environment()) for number in range(processes)]
    rounds = examples.rounds_of(*cells)
    return summarise(examples.contents_of(asked, cells, examples.dense(), sessions, rounds))


# --- tokens of the usual size ----------------------------------------------------------------------------------------


def photograph() -> Picture:
    """A picture of 24 × 24 tokens, in a file of the largest size that a study keeps: about 45 kB."""
    small = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize((448, 448), Image.Resampling.BICUBIC).save(file, format="JPEG", quality=70)
    image = f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
    return examples.picture(visual_tokens=576, grids=(TokenGrid(rows=24, columns=24),), image=image)


def with_tokens(found: SweepDocument) -> SweepDocument:
    """The same sweep with a photograph, and with the tokens that each cell keeps of it."""
    cells = [
        CellTokens(
            cell=Cell(method=cell.method, retention=cell.nominal_retention),
            realised=cell.nominal_retention,
            kept=examples.kept(*cell.budgets, tokens=576, scored=3),
        )
        for cell in found.cells
        if cell.budgets
    ]
    return found.model_copy(update={"tokens": TokenMaps(picture=photograph(), cells=tuple(cells))})


# --- endpoints -------------------------------------------------------------------------------------------------------


def segment_with(
    asked: EndpointStudy, number: int, arm: Arm, load: Load, rate: float, *, round: int = 0, **fields: Any
) -> tuple[Segment, list[Request]]:
    """A segment that answers `rate` requests per second, with twenty measured requests.

    fields: of its requests, or of the segment.
    """
    given = {name: fields.pop(name) for name in Request.model_fields if name in fields}
    gap = 1000 / rate
    requests = [
        Request(
            **{
                "segment": number,
                "measured": True,
                "picture": 20 * number + place,
                "due_ms": gap * place,
                "sent_ms": gap * place,
                "first_ms": gap * place + gap / 2,
                "end_ms": gap * (place + 1),
                "prompt_tokens": 74 if arm == "dense" else 26,
                "output_tokens": asked.new_tokens,
                "pieces": 4,
                "status": 200,
                **given,
            }
        )
        for place in range(20)
    ]
    asked_for = {"number": number, "arm": arm, "load": load, "round": round, "place": 0, "warm_ups": 8}
    seen = {"start_ms": 0.0, "end_ms": 20 * gap, "stopped": "requests", "steady": True}
    return Segment(**{**asked_for, **seen, **fields}), requests


def asked_of(asked: EndpointStudy, segments: Iterable[tuple[Segment, Sequence[Request]]]) -> RequestLog:
    """Segments as a store holds them."""
    found = RequestLog(sessions=[examples.session()])
    for arm, tokens in (("dense", 74), ("pruned", 26)):
        found.add(ServerFacts(arm=arm, model="fake", software="fake/1", text_tokens=10, prompt_tokens=tokens))
    for segment, requests in segments:
        for record in (*requests, segment.model_copy(update={"session": examples.SESSION})):
            found.add(record)
    return found


def endpoints_document() -> EndpointsDocument:
    """Two servers at four loads and a rate, three rounds. Pruning stops paying between 4 and 8."""
    servers = {"dense": "http://dense", "pruned": "http://pruned"}
    loads = {"concurrency": (1, 2, 4, 8), "rates": (3.0,), "rounds": 3, "requests": 20}
    asked = prepare(EndpointStudy(**servers, **loads, ttft_limit_ms=600))
    rates = {"dense": (1.0, 2.0, 3.0, 4.0, 2.5), "pruned": (2.0, 3.5, 3.8, 3.0, 2.9)}
    segments = [
        segment_with(asked, 10 * round + 2 * place + number, arm, load, rates[arm][place] * spread, round=round)
        for round, spread in enumerate((0.97, 1.0, 1.04))
        for place, load in enumerate(asked.loads)
        for number, arm in enumerate(ARMS)
    ]
    return document_of(asked, asked_of(asked, segments))


# --- a kept study of every kind --------------------------------------------------------------------------------------


def keep(
    directory: Path, study: Study, cells: Iterable[Measurement], *, where: Environment | None = None, **fields: Any
) -> Store:
    """Keep cells as a sweep would, with their rounds, in the sessions that they name.

    where: their machine. fields: further ones of the sessions.
    """
    store, cells = Store(directory), list(cells)
    named = [timing.session for cell in cells for timing in cell.timings]
    for name in dict.fromkeys([examples.SESSION, *named]):
        store.open(study, examples.session(id=name, environment=where or examples.environment(), **fields))
    timed = [cell for cell in cells if cell.status == "done"]
    counted = [examples.counted(cell) if cell in timed else cell for cell in cells]
    for record in (examples.dense(), *counted, *examples.rounds_of(*timed)):
        store.append(record)
    return store


def _cells(kind: str, **fields) -> Callable[[Path], None]:
    """Keeps a study that is measured cell by cell: two retentions, six rounds each."""

    def keep_cells(directory: Path) -> None:
        study = examples.study(verb=kind, retentions=(0.11, 0.55), **fields)
        seen = [examples.measurement(cell.method, cell.retention, pairs=6) for cell in study.cells()]
        pairs = zip(seen, study.cells(), strict=True)
        keep(directory, study, [one.model_copy(update={"cell": cell}) for one, cell in pairs])

    return keep_cells


def _document(kind: str, make_document: Callable[[], Record]) -> Callable[[Path], object]:
    """Keeps a document that is made by a function."""
    return lambda directory: write_document(directory / KINDS[kind].file, make_document())


@cache
def _counted() -> Record:
    """The dense model's work, counted without weights."""
    from trio_profile.kinds.flops import run as flops

    return flops.run(make("flops", device="meta"))


KEPT: dict[str, Callable[[Path], object]] = {
    "sweep": _cells("sweep"),
    "compare": _cells("compare", methods=("trio", "random")),
    "eval": _document("eval", evaluation),
    "flops": _document("flops", _counted),
    "layers": _document("layers", layers_document),
    "audit": lambda directory: copy(REPORTS / "trio-2026" / "audit.json", directory),
    "ablate": _cells("ablate", ablations={"k_pos": {"1": {"k_pos": 1}}}),
    "endpoints": _document("endpoints", endpoints_document),
    "predict": _document("predict", predicted),
}
"""By kind: puts a small study of this kind into a directory. `theory` has its own in `kept.py` of its tests."""
from tests.profile.kinds.theory.kept import KEPT as THEORY  # noqa: E402 - it takes names from here

KEPT |= THEORY
