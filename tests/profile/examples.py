"""Synthetic records that look like a real study: LLaVA-1.5-7B's shape, seeded noise, no model and no clock.

The work is exact (the cost model at integer schedules); times are that work plus a fixed part, the method's own
`overhead_ms` and noise, so that a test can place the break-even where it wants it.

    document()                                         one method, ten retentions, break-even inside the sweep
    document(study(methods=("trio", "fastv")))         several methods
    document(measurements=[measurement(overhead_ms=60)])    never pays
"""

import io
from base64 import b64encode
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

import numpy as np
from PIL import Image

from trio_profile.cost.formula import fastv_inference, fastv_overhead, kv_bytes, layer_macs
from trio_profile.kinds.grid.ablate import Ablation, ablate
from trio_profile.kinds.grid.sweep import SweepDocument, summarise
from trio_profile.records.contents import Contents
from trio_profile.records.decoders import known, widths
from trio_profile.records.estimate import Milliseconds, Ratio
from trio_profile.records.schema import (
    Cell,
    Counted,
    Dense,
    Environment,
    Fidelity,
    KeptTokens,
    Measurement,
    Pair,
    Picture,
    Retention,
    Round,
    Session,
    Shape,
    StageTokens,
    Study,
    Timed,
    Timing,
    TokenGrid,
)
from trio_profile.records.timing import TIMES

LAYERS = {"fastv": (2,), "pyramiddrop": (8, 16, 24)}
"""Stages by method; all others have the paper's (1, 10, 15)."""
_PROPORTIONS = (92, 54, 22)
_VISION_TOWER_MACS = 190_000_000_000
_FIXED_MS, _WORK_MS, _DECODE_MS = 5.0, 19.0, 9.0


def study(methods: Sequence[str] = ("trio",), **fields) -> Study:
    """A study on one GPU; any field of Study can be set."""
    asked = {"model": "llava-1.5-7b", "device": "cuda", "dtype": "bfloat16", "prompt": "What is the cat looking at?"}
    return Study(methods=tuple(methods), **{**asked, **fields})


def environment(**fields) -> Environment:
    """One GPU machine; any field of Environment can be set."""
    seen = {
        "hostname": "node-7",
        "system": "Linux-6.8-x86_64",
        "python": "3.11.9",
        "torch": "2.11.0",
        "transformers": "5.23.0",
        "fvcore": "0.1.5.post20221221",
        "device_name": "NVIDIA H200",
        "cpu": "Intel Xeon Platinum 8592+",
        "cpu_threads": 16,
        "memory_bytes": 128 * 2**30,
        "cuda": "13.0",
        "driver": "580.65.06",
        "device_memory_bytes": 139 * 2**30,
        "commit": "0f3c2a91d7",
    }
    return Environment(**{**seen, **fields})


def ms(value: float, samples: int = 12) -> Milliseconds:
    """A time, known to ±10 %."""
    return Milliseconds(value=value, ci95=(0.9 * value, 1.1 * value), samples=samples, stopped="converged")


def ratio(value: float, samples: int = 12) -> Ratio:
    """A speed-up, known to ±0.05."""
    return Ratio(value=value, ci95=(value - 0.05, value + 0.05), samples=samples, stopped="budget")


SESSION = "4c1f09aa"
"""Id of the session that measured everything here."""


def session(**fields) -> Session:
    """One session on that machine; any field of Session can be set."""
    return Session(**{"id": SESSION, "environment": environment(), **fields})


def shape(**fields) -> Shape:
    """LLaVA-1.5-7B's decoder with one picture; any field of Shape can be set."""
    of_input = {"itemsize": 2, "batch": 1, "visual_tokens": 576, "text_tokens": 60}
    return Shape(**{**widths(known()["llava-1.5-7b"]["config"]), **of_input, **fields})


def dense() -> Dense:
    """The unpruned model."""
    sizes = shape()
    tokens = [sizes.visual_tokens] * sizes.num_layers
    held = _cache_bytes(tokens, sizes)
    return Dense(
        shape=sizes,
        fastv_macs=fastv_inference(tokens, sizes.hidden, sizes.intermediate),
        counted=Counted(torch_flops=2 * _counted_macs(tokens, sizes), fvcore_macs=_counted_macs(tokens, sizes)),
        kv_bytes=held,
        kv_bytes_predicted=held,
        peak_memory_bytes=14_900_000_000,
        session=SESSION,
    )


def measurement(
    method: str = "trio",
    retention: float = 0.11,
    *,
    overhead_ms: float = 4.5,
    noise: float = 0.015,
    selection_forwards: float = 2.0,
    pairs: int = 30,
    gamma: float = 1.0,
    seed: int = 0,
) -> Measurement:
    """A finished cell.

    overhead_ms: what the method's selections cost in time: 0 pays at nearly every retention, 60 at none.
    noise: the relative spread of one run.
    selection_forwards: the selections' work, in forwards of the layers they look at.
    pairs: rounds of prefills. A third as many generations of 8 tokens follow them.
    """
    sizes = shape()
    layers = LAYERS.get(method, (1, 10, 15))
    budgets, tokens = schedule(retention, sizes, layers)
    looked_at = [tokens[layer - 1] for layer in layers]
    selection = round(selection_forwards * sum(layer_macs(n + sizes.text_tokens, sizes) for n in looked_at))
    work = _counted_macs(tokens, sizes)
    overhead = fastv_overhead(looked_at, sizes.hidden, sizes.intermediate, gamma)
    realised = sum(tokens) / (sizes.num_layers * sizes.visual_tokens)
    share = work / _counted_macs([sizes.visual_tokens] * sizes.num_layers, sizes)
    draw = np.random.default_rng([seed, crc32(method.encode()), round(1e6 * retention)])
    return Measurement(
        cell=Cell(method=method, retention=retention),
        status="done",
        retention=Retention(
            nominal=retention,
            layer_average=realised,
            final_layer=tokens[-1] / sizes.visual_tokens,
            realised=realised,
        ),
        layers=layers,
        budgets=budgets,
        fastv_macs=fastv_inference(tokens, sizes.hidden, sizes.intermediate) + overhead,
        fastv_overhead_macs=overhead,
        gamma_counted=selection_forwards,
        counted=Counted(
            torch_flops=2 * (work + selection), selection_flops=2 * selection, fvcore_macs=work + selection
        ),
        kv_bytes=_cache_bytes(tokens, sizes),
        kv_bytes_predicted=_cache_bytes(tokens, sizes),
        peak_memory_bytes=14_300_000_000,
        session=SESSION,
        timings=(
            Timing(
                session=SESSION,
                pairs=tuple(_pair(draw, share, overhead_ms, noise) for _ in range(pairs)),
                generations=tuple(_pair(draw, share, overhead_ms, noise, 8) for _ in range(-(-pairs // 3))),
            ),
        ),
    )


def pair(dense_ms: float = 100.0, pruned_ms: float = 50.0, decode_ms: float | None = None, **fields) -> Pair:
    """One cell beside the dense model.

    decode_ms: how long a generation of both takes after the prefill; None for a prefill.
    fields: further ones of the cell's run, or `clock_mhz`.
    """
    clock = {"clock_mhz": fields.pop("clock_mhz")} if "clock_mhz" in fields else {}
    dense, pruned = (
        {"prefill_ms": prefill} | ({} if decode_ms is None else {"total_ms": prefill + decode_ms, "ttft_ms": prefill})
        for prefill in (dense_ms, pruned_ms)
    )
    return Pair(dense=Timed(**dense), pruned=Timed(**{**pruned, **fields}), **clock)


def with_pairs(cell: Measurement, *sessions: Sequence[Pair]) -> Measurement:
    """The same cell with other prefills, of one session or of several, and without generations."""
    names = [SESSION, *map(str, range(1, len(sessions)))]
    timings = [Timing(session=name, pairs=tuple(pairs)) for name, pairs in zip(names, sessions, strict=True)]
    return cell.model_copy(update={"timings": tuple(timings)})


def with_cpu_times(cell: Measurement, threads: int = 2) -> Measurement:
    """The same cell on a CPU: all threads work during the whole prefill."""

    def working(run: Timed) -> Timed:
        return run.model_copy(update={"cpu_ms": threads * run.prefill_ms})

    return _each_run(cell, working, working)


def slowed(cell: Measurement, factor: float, *, dense: float = 1.0) -> Measurement:
    """The same cell, whose runs take a factor as long. dense: the factor of the dense runs."""

    def slower(run: Timed, factor: float) -> Timed:
        times = {name: factor * time for name in TIMES if (time := getattr(run, name)) is not None}
        return run.model_copy(update=times)

    return _each_run(cell, lambda run: slower(run, dense), lambda run: slower(run, factor))


def _each_run(cell: Measurement, dense: Callable[[Timed], Timed], pruned: Callable[[Timed], Timed]) -> Measurement:
    def changed(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        return tuple(one.model_copy(update={"dense": dense(one.dense), "pruned": pruned(one.pruned)}) for one in pairs)

    timings = [
        one.model_copy(update={"pairs": changed(one.pairs), "generations": changed(one.generations)})
        for one in cell.timings
    ]
    return cell.model_copy(update={"timings": tuple(timings)})


def in_processes(cell: Measurement, count: int = 4) -> Measurement:
    """The same cell, measured in several processes, whose speed-ups lie 0.4 % apart."""
    timings = [
        slowed(cell, 1 + 0.004 * (number - (count - 1) / 2)).timings[0].model_copy(update={"session": str(number)})
        for number in range(count)
    ]
    return cell.model_copy(update={"timings": tuple(timings)})


def counted(cell: Measurement) -> Measurement:
    """The same cell before it is timed, as a store has it."""
    return cell.model_copy(update={"status": "counted", "timings": ()})


def rounds_of(*cells: Measurement) -> list[Round]:
    """The rounds with the times of these cells: one cell a round."""
    return [
        Round(
            phase=phase,
            runs=(pair.dense, pair.pruned.model_copy(update={"cell": cell.cell.id})),
            seconds=0.5,
            clock_mhz=pair.clock_mhz,
            session=timing.session,
        )
        for cell in cells
        for timing in cell.timings
        for phase, pairs in (("prefill", timing.pairs), ("generation", timing.generations))
        for pair in pairs
    ]


_PNG = io.BytesIO()
Image.new("RGB", (1, 1), "red").save(_PNG, format="PNG")
PIXEL = f"data:image/png;base64,{b64encode(_PNG.getvalue()).decode()}"
"""A picture of one red pixel."""


def picture(**fields) -> Picture:
    """A picture of nine tokens in a square; any field of Picture can be set."""
    known = {"visual_tokens": 9, "grids": (TokenGrid(rows=3, columns=3),), "image": PIXEL, "prompt": "Which digit?"}
    return Picture(**{**known, "session": SESSION, **fields})


def kept(*counts: int, tokens: int = 9, merges: bool = False, scored: int = 1) -> KeptTokens:
    """The first tokens stay at each stage: `counts` of them (6, 3 and 1), after the paper's layers.

    merges: whether the others of the first stage go into token 0. scored: how many stages have falling scores.
    """
    stages: list[StageTokens] = []
    for place, (layer, count) in enumerate(zip((1, 10, 15), counts or (6, 3, 1), strict=False)):
        into = [number if number < count else 0 for number in range(tokens)] if merges and layer == 1 else None
        scores = range(tokens, 0, -1) if place < scored else None
        numbers = range(min(count, tokens))
        stages.append(StageTokens.of(layer, tokens, numbers, scores, merges=into is not None, merged_into=into))
    return KeptTokens(visual_tokens=tokens, stages=tuple(stages))


QUESTIONS = 300
"""Whose answers `answered` knows."""


def answered(
    measurements: Sequence[Measurement], unpruned: Dense | None = None, *, needs: float = 0.4, right: float = 0.9
) -> tuple[Dense, list[Measurement]]:
    """The same records with known answers: dense has `right` of them; a question keeps its own where the retention is
    above its need, which lies evenly between 0 and twice `needs`."""
    draw = np.random.default_rng(5)
    known, need = draw.random(QUESTIONS) < right, draw.random(QUESTIONS) * 2 * needs
    kinds = tuple(f"{i % 2 + 1} hops" for i in range(QUESTIONS))
    whole = (unpruned or dense()).model_copy(update={"correct": tuple(known.tolist()), "kinds": kinds})
    told = []
    for one in measurements:
        kept = need < (one.retention.realised if one.retention else 0)
        fidelity = Fidelity(
            kl_nats=tuple(np.where(kept, 0.01, 2.0).tolist()),
            top1=tuple(kept.tolist()),
            same=tuple(kept.tolist()),
            correct=tuple((known & kept).tolist()),
        )
        told.append(one.model_copy(update={"fidelity": fidelity}))
    return whole, told


def failed(
    method: str = "trio", retention: float = 0.11, reason: str = "CUDA out of memory: 2.1 GiB asked"
) -> Measurement:
    """A cell that could not be measured."""
    return Measurement(cell=Cell(method=method, retention=retention), status="failed", reason=reason, session=SESSION)


def document(
    asked: Study | None = None,
    measurements: Sequence[Measurement] | None = None,
    *,
    where: Environment | None = None,
    unpruned: Dense | None = None,
    without_dense: bool = False,
) -> SweepDocument:
    """A summarised study. By default all cells are measured, each further method with a costlier selection."""
    asked = asked or study()
    if measurements is None:
        measurements = [
            measurement(method, retention, overhead_ms=3.5 + 2.5 * rank, gamma=asked.gamma)
            for rank, method in enumerate(asked.methods)
            for retention in asked.retentions
        ]
    where, rounds = where or environment(), rounds_of(*measurements)
    whole = None if without_dense else unpruned or dense()
    names = dict.fromkeys([SESSION, *(one.session for one in rounds)])
    sessions = [session(id=name, environment=where) for name in names]
    return summarise(contents_of(asked, measurements, whole, sessions, rounds))


def contents_of(
    asked: Study,
    cells: Iterable[Measurement] = (),
    unpruned: Dense | None = None,
    sessions: Iterable[Session] | None = None,
    rounds: Iterable[Round] = (),
) -> Contents:
    """The contents of a store whose cells have these records with their times."""
    opened = [session()] if sessions is None else list(sessions)
    timed = {one.cell.id: one for one in cells}
    return Contents(asked, sessions=opened, dense=unpruned, rounds=list(rounds), _timed=timed)


def store(
    asked: Study, *cells: Measurement, unpruned: Dense | None = None, load_seconds: float = 0.0, seconds: float = 1.0
) -> Contents:
    """The contents of a store to which the records of these cells were added. seconds: of each round."""
    done = [cell for cell in cells if cell.status == "done"]
    names = dict.fromkeys([SESSION, *(timing.session for cell in done for timing in cell.timings)])
    opened = [session(id=name, load_seconds=load_seconds) for name in names]
    contents = Contents(asked, sessions=opened, dense=unpruned or dense())
    timed = [one.model_copy(update={"seconds": seconds}) for one in rounds_of(*done)]
    for record in (*(counted(cell) if cell.status == "done" else cell for cell in cells), *timed):
        contents.add(record)
    return contents


def schedule(retention: float, sizes: Shape, layers: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
    """Budgets in the proportion 92 : 54 : 22 and the visual tokens by layer, near to the layer average."""
    most = retention * sizes.num_layers * sizes.visual_tokens
    above = bisect(range(2**40), most, key=lambda step: sum(_tokens(step, sizes, layers)[1]))
    return _tokens(max(0, above - 1), sizes, layers)


def _tokens(step: int, sizes: Shape, layers: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
    whole, scale = sizes.visual_tokens, 100 * step / 2**40
    budgets = tuple(max(1, min(whole, round(scale * whole * p / _PROPORTIONS[0]))) for p in _PROPORTIONS[: len(layers)])
    starts = [0, *layers, sizes.num_layers]
    lengths = np.diff(starts)
    return budgets, [n for n, length in zip((whole, *budgets), lengths, strict=True) for _ in range(length)]


def _pair(draw: np.random.Generator, share: float, overhead_ms: float, noise: float, new_tokens: int = 0) -> Pair:
    """A prefill, or a generation of some tokens. share: of the dense work that is left."""
    drift, jitter = 1 + noise * draw.standard_normal(), 1 + noise * draw.standard_normal(4)
    dense = {"prefill_ms": (_FIXED_MS + _WORK_MS) * drift * jitter[0]}
    pruned = {"prefill_ms": (_FIXED_MS + _WORK_MS * share + overhead_ms) * drift * jitter[1]}
    if new_tokens:
        decode = _DECODE_MS * (new_tokens - 1) * drift
        for run, rest in ((dense, decode * jitter[2]), (pruned, decode * (0.94 + 0.06 * share) * jitter[3])):
            run |= {"ttft_ms": run["prefill_ms"], "total_ms": run["prefill_ms"] + rest}
    return Pair(dense=Timed(**dense), pruned=Timed(**pruned))


def _counted_macs(visual_tokens: Sequence[int], sizes: Shape) -> int:
    decoder = sum(layer_macs(n + sizes.text_tokens, sizes) for n in visual_tokens)
    return decoder + sizes.hidden * sizes.vocabulary + _VISION_TOWER_MACS


def _cache_bytes(visual_tokens: Sequence[int], sizes: Shape) -> int:
    return kv_bytes([n + sizes.text_tokens for n in visual_tokens], sizes.kv_width, sizes.itemsize, sizes.batch)


def ablation() -> Ablation:
    """200 questions: k_pos 1 loses 30 that the default answers and gains 5, k_pos 2 loses as many as it gains."""
    asked = study(
        verb="ablate",
        model="MODEL",
        retentions=(0.11,),
        ablations={"k_pos": {"1": {"k_pos": 1}, "2": {"k_pos": 2}, "4": {}}},
    )
    default = [True] * 120 + [False] * 80
    worse = [False] * 30 + [True] * 95 + [False] * 75
    other = [False] * 4 + [True] * 120 + [False] * 76
    unpruned = Dense(**{**dict(dense()), "correct": (True,) * 150 + (False,) * 50})
    cells = [answering({"k_pos": 1}, worse), answering({}, default), answering({"k_pos": 2}, other)]
    return ablate(contents_of(asked, cells, unpruned))


def answering(options: dict, correct: list[bool]) -> Measurement:
    """A cell of TRIO at 11 % with these options, and whether its answer to each question is right."""
    cell = Cell(method="trio", retention=0.11, options=options)
    return measurement().model_copy(update={"cell": cell, "fidelity": right_answers(correct)})


def right_answers(correct: Iterable[bool]) -> Fidelity:
    """Answers of which these are right. The others differ from the dense model's."""
    right = tuple(correct)
    return Fidelity(kl_nats=(0.1,) * len(right), top1=right, same=right, correct=right)
