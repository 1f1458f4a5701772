"""The report of a sweep, top to bottom. To add a page: write a function `Document -> Page` and put it into PAGES."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.accuracy import Kept
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.sweep import CellSummary, DenseSummary, Document
from trio_profile.findings import charts as figures
from trio_profile.findings import verdict
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.records.estimate import Accuracy, Measured
from trio_profile.records.schema import Energy
from trio_profile.stats.crossing import BreakEven

NAMES = {
    "prefill_ms": "Prefill time",
    "total_ms": "Total time",
    "fastv_macs": "MACs by formula",
    "counted_macs": "MACs counted",
    "kv_bytes": "KV cache bytes",
    "energy_j": "Energy of a prefill",
}
"""Quantities with a break-even, as a reader calls them."""


def report(document: Document) -> Report:
    """All pages of a sweep's report."""
    return of_study(document, ", ".join(document.study.methods), [page(document) for page in PAGES])


def of_study(document: Document | Comparison | Ablation, subject: str, pages: Sequence[Page]) -> Report:
    """The report of any study: its pages under a heading that says on what, and where, it was measured."""
    study, dense = document.study, document.dense
    facts = [document.environment.device_name, study.dtype, f"{study.attention} attention", f"batch {study.batch}"]
    if dense is not None:
        facts += [f"{dense.visual_tokens} visual + {dense.text_tokens} text tokens", f"{dense.num_layers} layers"]
    return Report(subject=subject, model=study.model, facts=facts, pages=pages, data=document.model_dump_json())


def verdict_page(document: Document) -> Page:
    """What was found, in sentences, and the break-even of every quantity."""
    methods = document.study.methods
    blocks: list[Sentences | Table] = [
        Sentences("", lines, colour=figures.colour(document, method))
        for method in methods
        if (lines := verdict.findings(document, method))
    ]
    if not blocks:
        blocks.append(Sentences("", verdict.sentences(document)[:1]))
    if document.dense is not None and _any_finished(document):
        blocks.append(_break_even_table(document))
    if doubts := verdict.doubts(document):
        blocks.append(Sentences("To be kept in mind", doubts, tone="doubt"))
    return Page(
        "verdict",
        "Verdict",
        "Brackets are 95 % intervals. Break-even is the retention above which pruning costs more than it saves, and "
        "it has one value for each thing that is being saved: a method may pay by formula where it does not pay by the "
        "clock.",
        blocks,
    )


def speedup_page(document: Document) -> Page:
    """Measured speed-ups."""
    tokens = document.study.new_tokens
    together = f"Prefill and {tokens} new token{'s' if tokens != 1 else ''}"
    charts = [
        Chart("prefill", "Prefill", _alternative(document, "prefill_ms"), figures.prefill_speedup(document)),
        Chart("total", together, _alternative(document, "total_ms"), figures.total_speedup(document)),
    ]
    return Page(
        "speed-up",
        "Speed-up",
        "Each point is the median of paired ratios, dense time over pruned time, in its 95 % interval. Above the line "
        "at 1× pruning is faster. The upright band is break-even with its interval: to the right of it pruning no "
        "longer pays. An open point was stopped before its interval was as narrow as asked. Both figures have one "
        "scale.",
        charts if _any_finished(document) else [],
    )


def answers_page(document: Document) -> Page:
    """What pruning does to the answers, where they are known."""
    known = document.dense is not None and document.dense.accuracy is not None and _any_finished(document)
    label = "Share of questions answered right, by retention"
    chart = Chart("accuracy", "Questions answered right", label, figures.accuracy(document)) if known else None
    return Page(
        "answers",
        "Answers",
        "The same questions at every retention, each answered by generation and held against its known answer. The "
        "level line is the dense model. A difference is paired, question by question, and so its interval is narrower "
        "than those of the two accuracies. What a method draws at random was drawn with several seeds.",
        [chart, _kept_table(document), _answers_table(document)] if chart else [Sentences("", [_NO_ANSWERS])],
    )


_NO_ANSWERS = "No question with a known answer was asked. A file of them is named by --questions."


def _kept_table(document: Document) -> Table:
    rows = [
        [
            Entry(method, colour=figures.colour(document, method)),
            *(_kept_entry(found) for found in by_share.values()),
        ]
        for method, by_share in document.accuracy_kept_by_method.items()
        if by_share
    ]
    shares = next((by_share for by_share in document.accuracy_kept_by_method.values() if by_share), {})
    columns = ("Method", *(f"{units.percent(float(share), 0)} kept" for share in shares))
    return Table("The cheapest retention that keeps a share of the dense accuracy", columns, rows)


def _kept_entry(found: Kept) -> Entry:
    if found.status != "crossing" or found.retention is None or found.ci95 is None:
        return Entry(verdict.kept_text(found))
    text, within, bounds = units.percent_within(found.retention, found.ci95).partition(" [")
    notes = [f"[{bounds}"] if within else []
    if found.prefill_speedup is not None:
        notes.append(f"prefill {units.times(found.prefill_speedup)}")
    return Entry(text, note=", ".join(notes))


def _answers_table(document: Document) -> Table:
    dense = document.dense
    assert dense is not None
    kinds = list(dense.accuracy_by_kind)
    columns = ("Method", "Retention", "right", "less dense", "same answer", "same next token", "KL, nats", *kinds)
    rows = [
        [
            Entry("dense"),
            Entry(units.percent(1.0)),
            _right(dense.accuracy),
            *(Entry("–") for _ in range(4)),
            *(_right(dense.accuracy_by_kind[kind]) for kind in kinds),
        ]
    ]
    rows += [_answers_row(document, method, asked, cell, kinds) for method, asked, cell in _asked(document)]
    return Table("Answers by retention", columns, rows)


def _answers_row(
    document: Document, method: str, asked: float, cell: CellSummary | None, kinds: Sequence[str]
) -> list[Entry]:
    head = _head(document, method, asked, cell)
    if cell is None or cell.accuracy is None or cell.kl_nats is None or cell.top1_agreement is None:
        return [*head, _absent(cell, 5 + len(kinds))]
    less, same = cell.accuracy_difference, cell.answer_agreement
    return [
        *head,
        _right(cell.accuracy),
        Entry(verdict.points(less) if less else "–"),
        Entry(units.percent(same.value) if same else "–"),
        Entry(units.percent(cell.top1_agreement.value)),
        Entry(units.factor(cell.kl_nats.value)),
        *(_right(cell.accuracy_by_kind.get(kind)) for kind in kinds),
    ]


def _right(found: Accuracy | None) -> Entry:
    if found is None:
        return Entry("–")
    return Entry(units.percent(found.value), title=units.percent_within(found.value, found.ci95))


def work_page(document: Document) -> Page:
    """Claimed, counted and timed, on one scale; and what the choice itself costs."""
    charts = [
        Chart(f"work-{i}", method, f"Work and prefill time of {method} over dense, by retention", figure)
        for i, method in enumerate(document.study.methods)
        if verdict.finished(document, method)
        for figure in [figures.work(document, method)]
    ]
    label = "Share of the counted work that selection takes, by retention"
    return Page(
        "work",
        "Work",
        "Cost as a ratio to dense: lower is cheaper. The dotted line is what the paper's formula claims, of visual "
        "tokens alone; the grey line is what the counter saw run, text, head and selection included; dashed is the "
        "same without selection; the coloured line is the time it took. Between dotted and grey lies work that the "
        "formula leaves out or counts otherwise, between grey and coloured time that does not follow work.",
        [*charts, Chart("selection", "What choosing costs", label, figures.selection(document))] if charts else [],
    )


def cache_page(document: Document) -> Page:
    """The key-value cache."""
    charts = [Chart("cache", "Bytes held", "KV cache bytes over dense, by retention", figures.cache(document))]
    return Page(
        "cache",
        "KV cache",
        "Bytes that the cache really holds after prefill, over dense. A ring is the prediction from the schedule: "
        "where it is not round its point, other bytes are held than were planned. Text tokens are never pruned, and "
        "so the ratio stays above retention.",
        charts if document.dense is not None and any(cell.kv_bytes for cell in document.cells) else [],
    )


def cells_page(document: Document) -> Page:
    """Every cell that was asked for, with its numbers or the reason why there are none."""
    return Page(
        "cells",
        "All cells",
        "One row a cell, failed and unmeasured ones included. Times are medians; the interval of a speed-up is of the "
        "paired ratio, and is narrower than the two times alone would allow. Point at a count to see all its digits.",
        [_retention_table(document), _time_table(document), *_token_table(document), _exact_table(document)],
    )


def study_page(document: Document | Comparison | Ablation) -> Page:
    """What was asked, and where it was measured."""
    asked, where = document.study, document.environment
    options = ", ".join(f"{name} = {value}" for name, value in asked.options.items())
    study = [
        ("model", asked.model),
        ("methods", ", ".join(asked.methods)),
        ("retentions", ", ".join(units.percent(retention) for retention in sorted(set(asked.retentions)))),
        ("prune after layers", ", ".join(map(str, asked.layers)) if asked.layers else "the paper's, for this depth"),
        ("options", options),
        ("ablations", ", ".join(asked.ablations)),
        ("image", asked.image),
        ("prompt", asked.prompt),
        ("questions", asked.questions),
        ("tokens", _tokens(document)),
        ("batch", str(asked.batch)),
        ("device", f"{asked.device}, {asked.dtype}, {asked.attention} attention"),
        ("γ assumed", units.factor(asked.gamma)),
        (
            "interval asked",
            f"±{units.percent(asked.precision)} of a speed-up, or {units.duration(asked.cell_seconds)} a cell",
        ),
        ("seed", str(asked.seed)),
    ]
    environment = [
        ("device", where.device_name),
        ("device memory", units.size(where.device_memory_bytes) if where.device_memory_bytes else None),
        ("CUDA, driver", ", ".join(part for part in (where.cuda, where.driver) if part)),
        ("processor", f"{where.cpu}, {where.cpu_threads} threads"),
        ("memory", units.size(where.memory_bytes) if where.memory_bytes else None),
        ("system", where.system),
        ("python", where.python),
        ("torch", where.torch),
        ("transformers", where.transformers),
        ("fvcore", where.fvcore),
        ("host", where.hostname),
        ("commit", where.commit),
    ]
    return Page(
        "study",
        "Study and environment",
        "What was asked, and where it was measured. Times hold for this machine and these versions; exact counts hold "
        "wherever the same model runs.",
        [Terms("Asked", _present(study)), Terms("Measured on", _present(environment))],
    )


def numbers_page(_: Document | Comparison | Ablation) -> Page:
    """How the numbers are defined."""
    return Page(
        "numbers",
        "How the numbers are defined",
        "One meaning for one name, in the report and in the JSON that is embedded in this file.",
        [Terms("", DEFINITIONS)],
    )


PAGES: tuple[Callable[[Document], Page], ...] = (
    verdict_page,
    speedup_page,
    answers_page,
    work_page,
    cache_page,
    cells_page,
    study_page,
    numbers_page,
)

DEFINITIONS = (
    (
        "Retention",
        "The share of visual tokens kept, averaged over the decoder's layers, the unpruned first layers counted. "
        "Schedules are of whole tokens, so the realised value, which is plotted, can differ from the nominal one.",
    ),
    (
        "Speed-up",
        "The median of paired ratios: dense and pruned in turn, in random order within a pair, on the same input in "
        "the same process. The interval holds the median with 95 %, whatever the noise looks like. Sampling goes on "
        "until the interval is as narrow as asked (converged), narrows no more (plateau), or time is up (budget).",
    ),
    (
        "Break-even",
        "The retention at which the cost ratio crosses 1, from a fit that never falls with retention; its interval "
        "comes from resampling the pairs. For counts it is the exact crossing of the line through the sweep.",
    ),
    (
        "Prefill and total",
        "Prefill ends with the first new token; total goes on to the last one.",
    ),
    (
        "MACs by formula",
        "The paper's f(n) = 4nd² + 2n²d + 2ndm, summed over layers, plus γ · Σ f(n) over the stages for choosing. It "
        "counts visual tokens alone and a feed-forward network of two matrices. In the JSON: fastv_macs.",
    ),
    (
        "MACs counted",
        "Half of the floating-point operations that the counter saw in one prefill, choosing included: text tokens, "
        "head and the feed-forward network as it is are all in it. One MAC is two FLOPs. In the JSON: counted_macs.",
    ),
    (
        "Selection, γ",
        "The counted work of choosing which tokens stay. γ is that work over one forward of each layer that was looked "
        "at: the formula assumes it, the counter finds it.",
    ),
    (
        "KV cache",
        "Bytes of keys and values held after prefill, summed over layers; predicted are tokens by layer × 2 × the "
        "width of keys × the bytes of one number.",
    ),
    (
        "What is not here",
        "Whether the answers stay right, where none are known. A pruned model that is faster may still be wrong.",
    ),
)


def _any_finished(document: Document) -> bool:
    return any(cell.status == "done" for cell in document.cells)


def _break_even_table(document: Document) -> Table:
    methods = document.study.methods
    rows = [
        [Entry(NAMES[quantity]), *(_break_even_entry(verdict.break_even(document, m, quantity)) for m in methods)]
        for quantity in document.break_even
    ]
    return Table("Break-even: pruning pays below this retention", ["", *methods], rows, compact=len(methods) < 4)


def _break_even_entry(found: BreakEven) -> Entry:
    if found.retention is not None and found.ci95 is not None:
        text, _, note = units.percent_within(found.retention, found.ci95).partition(" [")
        return Entry(text, note=f"[{note}" if note else "exact")
    if found.retention is not None:
        return Entry(units.percent(found.retention), note="measured once")
    return Entry({"always": "always pays", "never": "never pays"}.get(found.status, "open"), title="in this sweep")


def _retention_table(document: Document) -> Table:
    columns = ("Method", "asked", "of the layers", "in the last layer", "realised", "tokens kept", "after layers")
    rows: list[list[Entry]] = []
    for method, asked, cell in _asked(document):
        kept = cell.retention if cell else None
        head = [Entry(method, colour=figures.colour(document, method)), Entry(units.percent(asked))]
        if cell is None or kept is None:
            rows.append([*head, _absent(cell, 5)])
            continue
        shares = [Entry(units.percent(part, 2)) for part in (kept.layer_average, kept.final_layer, kept.realised)]
        places = [Entry(", ".join(map(str, numbers))) for numbers in (cell.budgets, cell.layers)]
        rows.append([*head, *shares, *places])
    return Table("Retention: what four numbers of that name are", columns, rows)


def _time_table(document: Document) -> Table:
    groups = (("", 3), ("Prefill", 3), ("Total", 3), ("", 1))
    timed = ("dense", "pruned", "speed-up")
    columns = ("Method", "Retention", "Tokens kept", *timed, *timed, "Pairs")
    rows = [_time_row(document, method, asked, cell) for method, asked, cell in _asked(document)]
    return Table("Time: dense and pruned, and their paired ratio", columns, rows, groups)


def _time_row(document: Document, method: str, asked: float, cell: CellSummary | None) -> list[Entry]:
    if cell is None or cell.status != "done":
        return [*_head(document, method, asked, cell), _absent(cell, 8)]
    prefill, stopped = cell.prefill_speedup, cell.prefill_speedup.stopped if cell.prefill_speedup else ""
    return [
        *_head(document, method, asked, cell),
        Entry(", ".join(map(str, cell.budgets)), title=f"after layers {', '.join(map(str, cell.layers))}"),
        _milliseconds(cell.dense_prefill_ms),
        _milliseconds(cell.prefill_ms),
        _ratio(prefill),
        _milliseconds(cell.dense_total_ms),
        _milliseconds(cell.total_ms),
        _ratio(cell.total_speedup),
        Entry(str(prefill.samples) if prefill else "–", note=stopped),
    ]


def _token_table(document: Document) -> list[Table]:
    """First and later tokens, the host's part, and energy: what of it was measured."""
    cells = [(method, asked, cell) for method, asked, cell in _asked(document) if cell and cell.ttft_ms]
    if not cells:
        return []
    groups = (
        ("", 2),
        ("First token", 2),
        ("Each later token", 2),
        ("Host, a prefill", 2),
        ("Prefill energy", 2),
    )
    columns = ("Method", "Retention", *("dense", "pruned") * 4)
    dense_energy = document.dense.energy if document.dense else None
    rows = [
        [
            *_head(document, method, asked, cell),
            _milliseconds(cell.dense_ttft_ms),
            _milliseconds(cell.ttft_ms),
            _milliseconds(cell.dense_tpot_ms),
            _milliseconds(cell.tpot_ms),
            _milliseconds(cell.dense_host_ms),
            _milliseconds(cell.host_ms),
            _joules(dense_energy),
            _joules(cell.energy),
        ]
        for method, asked, cell in cells
    ]
    return [Table("Tokens and energy", columns, rows, groups)]


def _joules(energy: Energy | None) -> Entry:
    if energy is None or energy.prefill_j is None:
        return Entry("–", title=(energy.reason or "") if energy else "")
    return Entry(units.joules(energy.prefill_j))


def _exact_table(document: Document) -> Table:
    groups = (("", 2), ("MACs", 5), ("KV cache", 2), ("Memory", 1))
    columns = ("Method", "Retention", "by formula", "counted", "fvcore", "selection", "γ", "held", "predicted", "peak")
    rows = [_exact_row(document, method, asked, cell) for method, asked, cell in _asked(document)]
    dense = [_dense_row(document.dense)] if document.dense else []
    return Table("Work and memory: exact counts, and their ratio to dense", columns, [*dense, *rows], groups)


def _dense_row(dense: DenseSummary) -> list[Entry]:
    return [
        Entry("dense"),
        Entry(units.percent(1.0)),
        _macs(dense.fastv_macs),
        _macs(dense.counted_macs),
        _macs(dense.fvcore_macs),
        Entry("–"),
        Entry("–"),
        _bytes(dense.kv_bytes),
        _bytes(dense.kv_bytes_predicted),
        _bytes(dense.peak_memory_bytes),
    ]


def _exact_row(document: Document, method: str, asked: float, cell: CellSummary | None) -> list[Entry]:
    if cell is None or cell.status != "done":
        return [*_head(document, method, asked, cell), _absent(cell, 8)]
    dense = document.dense
    gamma = cell.gamma.counted if cell.gamma else None
    return [
        *_head(document, method, asked, cell),
        _macs(cell.fastv_macs, dense.fastv_macs if dense else None),
        _macs(cell.counted_macs, dense.counted_macs if dense else None),
        _macs(cell.fvcore_macs, dense.fvcore_macs if dense else None),
        _selection(cell),
        Entry(units.factor(gamma) if gamma is not None else "–"),
        _bytes(cell.kv_bytes, dense.kv_bytes if dense else None),
        _bytes(cell.kv_bytes_predicted),
        _bytes(cell.peak_memory_bytes),
    ]


def _asked(document: Document) -> list[tuple[str, float, CellSummary | None]]:
    """Every cell of the study in its order, with what came of it."""
    seen = {(cell.method, cell.nominal_retention): cell for cell in document.cells}
    return [(cell.method, cell.retention, seen.get((cell.method, cell.retention))) for cell in document.study.cells()]


def _head(document: Document, method: str, asked: float, cell: CellSummary | None) -> list[Entry]:
    reached = verdict.realised(cell) if cell else asked
    note = "" if units.percent(reached) == units.percent(asked) else f"of {units.percent(asked)}"
    return [Entry(method, colour=figures.colour(document, method)), Entry(units.percent(reached), note=note)]


def _absent(cell: CellSummary | None, span: int) -> Entry:
    if cell is None:
        return Entry("not measured yet", tone="absent", span=span)
    return Entry(f"failed: {cell.reason or 'no reason was recorded'}", tone="loss absent", span=span)


def _ratio(found: Measured | None) -> Entry:
    if found is None:
        return Entry("–")
    tone = "gain" if found.ci95[0] > 1 else "loss" if found.ci95[1] < 1 else ""
    return Entry(units.times(found.value, found.ci95), note=units.interval(found.ci95), tone=tone)


def _milliseconds(found: Measured | None) -> Entry:
    if found is None:
        return Entry("–")
    low, high = (units.milliseconds(bound) for bound in found.ci95)
    return Entry(units.milliseconds(found.value), title=f"95 % interval {low} to {high}")


def _macs(macs: int | None, dense: int | None = None) -> Entry:
    if macs is None:
        return Entry("–")
    return Entry(
        units.count(macs), note=units.percent(macs / dense) if dense else "", title=f"{units.exact(macs)} MACs"
    )


def _selection(cell: CellSummary) -> Entry:
    share = figures.selection_share(cell)
    if share is None:
        return Entry("–")
    return Entry(units.percent(share), title=f"{units.exact(cell.selection_macs or 0)} MACs")


def _bytes(num_bytes: int | None, dense: int | None = None) -> Entry:
    if num_bytes is None:
        return Entry("–")
    note = units.percent(num_bytes / dense) if dense else ""
    return Entry(units.size(num_bytes), note=note, title=f"{units.exact(num_bytes)} bytes")


def _tokens(document: Document | Comparison | Ablation) -> str:
    new = f"{document.study.new_tokens} new"
    if document.dense is None:
        return new
    return f"{document.dense.visual_tokens} visual, {document.dense.text_tokens} of text, {new}"


def _alternative(document: Document, quantity: str) -> str:
    """What the speed-up figure shows, for those who cannot see it."""
    found = [f"{m} pays {verdict.break_even_text(document, m, quantity)}" for m in document.study.methods]
    return f"{NAMES[quantity]}, speed-up over dense by retention: {'; '.join(found)}"


def _present(items: Sequence[tuple[str, str | None]]) -> list[tuple[str, str]]:
    return [(term, text) for term, text in items if text]
