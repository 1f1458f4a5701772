"""What people see in the terminal. Tables go to standard output, doubts to standard error."""

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trio_profile import units
from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.ablate import Row as Variant
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.analysis.eval import Evaluation, Score
from trio_profile.analysis.layers import LayersDocument, LayerTimes
from trio_profile.analysis.stability import Doubt
from trio_profile.analysis.stability import name as cell_name
from trio_profile.analysis.sweep import CellSummary, Document
from trio_profile.analysis.theory import TheoryDocument
from trio_profile.cost.conventions import Match
from trio_profile.cost.reconciliation import FlopsDocument, Term
from trio_profile.findings.ablate import sentences as ablation_sentences
from trio_profile.findings.compare import sentences as comparison_sentences
from trio_profile.findings.theory import sentences as theory_sentences
from trio_profile.findings.verdict import sentences
from trio_profile.records.estimate import Accuracy, Difference, Estimate, Measured
from trio_profile.records.schema import FORMAT, VERSION, Measurement, Shape, Study
from trio_profile.stats.crossing import BreakEven

if TYPE_CHECKING:
    from trio_profile.studies.plan import Planned


def print_document(document: Document) -> None:
    """The verdict, the cells, the break-evens and where the report is."""
    console = Console()
    for method in document.study.methods:
        console.print(_cells(document, method), "")
    console.print(_break_evens(document), "")
    for sentence in sentences(document):
        console.print(escape(sentence))
    if document.report:
        console.print(f"report: {escape(document.report)}", soft_wrap=True)


def print_comparison(document: Comparison) -> None:
    """The methods at each retention, what stands out, and what could not be run."""
    console = Console()
    for retention in sorted(set(document.study.retentions)):
        table = _table(
            f"{document.study.model} at {units.percent(retention)}: speed-up, and cost against dense", "method"
        )
        table.columns[0].no_wrap = True
        known = document.dense is not None and document.dense.accuracy is not None
        # Where answers are known, whether the next token is the dense one's says less than they do.
        for name in ("prefill", "total", "choice,\nms", "MACs", "KV", "KL,\nnats", "right" if known else "same\ntop"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in document.at(retention):
            table.add_row(escape(row.method) + (" *" if row.pareto else ""), *_comparison_row(row, document))
        console.print(table, "")
        for sentence in comparison_sentences(document, retention):
            console.print(escape(sentence))
        console.print("")
    if document.answered:
        console.print(_answers_by_retention(document), "")
    if any(row.pareto for row in document.rows):
        console.print(
            "*: nothing at this retention is both faster in prefill and nearer to dense."
            + (
                ""
                if document.dense is not None and document.dense.accuracy is not None
                else " On weights that were never trained, nearness speaks of the computation and not of answers."
            )
        )
    for method, remark in dict.fromkeys((row.method, row.remark) for row in document.rows if row.remark):
        console.print(escape(f"{method}: {remark}"))
    for row in document.refusals:
        console.print(escape(f"{row.method} at {units.percent(row.nominal_retention)}: {row.status}, {row.reason}"))
    if document.report:
        console.print(f"report: {escape(document.report)}", soft_wrap=True)


def _comparison_row(row: Row, document: Comparison) -> list[str]:
    dense = document.dense

    def share(value: int | None, whole: int | None) -> str:
        return units.percent(value / whole, 0) if value is not None and whole else ""

    return [
        _speedup(row.prefill_speedup),
        "" if row.total_speedup is None else units.times(row.total_speedup.value, row.total_speedup.ci95),
        "" if row.selection_ms is None else units.factor(row.selection_ms.value),
        share(row.counted_macs, dense.counted_macs if dense else None),
        share(row.kv_bytes, dense.kv_bytes if dense else None),
        "" if row.kl_nats is None else units.factor(row.kl_nats.value),
        _accuracy(row.accuracy)
        if row.accuracy is not None
        else ("" if row.top1_agreement is None else units.percent(row.top1_agreement.value, 0)),
    ]


def _answers_by_retention(document: Comparison) -> Table:
    retentions = sorted(set(document.study.retentions))
    table = _table(f"questions answered right, and points to {document.reference}", "method")
    for retention in retentions:
        table.add_column(units.percent(retention), justify="right")
    for method, by_retention in document.answered.items():
        fields = []
        for retention in retentions:
            row = by_retention.get(retention)
            apart = None if row is None else row.reference_difference
            fields.append("\n".join(filter(None, (_accuracy(row and row.accuracy), _points(apart)))))
        table.add_row(escape(method), *fields)
    return table


def _points(apart: Difference | None) -> str:
    return "" if apart is None else escape(units.points_within(apart.value, apart.ci95))


def print_ablation(document: Ablation) -> None:
    """Each ablation at each retention, what stands out of it, and what could not be run."""
    console = Console()
    known = document.dense is not None and document.dense.accuracy is not None
    for group in document.groups:
        for retention in sorted(set(document.study.retentions)):
            table = _table(f"{group.name} on {document.study.model} at {units.percent(retention)}", group.name)
            table.columns[0].no_wrap = True
            answers = ("right", "points to\ndefault") if known else ()
            for name in (*answers, "KL,\nnats", "prefill", "MACs"):
                table.add_column(name, justify="right", no_wrap=True)
            for row in group.at(retention):
                table.add_row(row.variant + " *" * row.default, *_variant(row, document, known))
            console.print(table, "")
            for sentence in ablation_sentences(group, retention):
                console.print(escape(sentence))
            console.print("")
    console.print("*: the default. Points are paired with it, question by question; MACs are over dense.")
    for group, row in document.refusals:
        where = f"{group.name} {row.variant} at {units.percent(row.nominal_retention)}"
        console.print(escape(f"{where}: {row.status}, {row.reason}"))
    if document.report:
        console.print(f"report: {escape(document.report)}", soft_wrap=True)


def _variant(row: Variant, document: Ablation, known: bool) -> list[str]:
    dense = document.dense
    return [
        *([_accuracy(row.accuracy), _points(row.default_difference)] if known else []),
        "" if row.kl_nats is None else units.factor(row.kl_nats.value),
        _speedup(row.prefill_speedup),
        units.percent(row.counted_macs / dense.counted_macs, 0) if dense and row.counted_macs else "",
    ]


def warn(lines: Sequence[str]) -> None:
    """Say what was dropped or doubted."""
    for line in lines:
        print(f"trio-profile: warning: {line}", file=sys.stderr)


def _cells(document: Document, method: str) -> Table:
    remark = next((f" ({cell.remark})" for cell in document.cells if cell.method == method and cell.remark), "")
    table = _table(f"{method}{remark} on {document.study.model}: speed-up, and cost against dense")
    answers = ("right",) if document.dense is not None and document.dense.accuracy is not None else ()
    for name in ("reten-\ntion", "prefill", "total", "counted\nMACs", "f(n)\nMACs", "KV\ncache", *answers):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in document.cells:
        if cell.method == method:
            table.add_row(*_row(cell, document))
    return table


def _row(cell: CellSummary, document: Document) -> list[str]:
    if cell.status != "done" or cell.retention is None or document.dense is None:
        return [units.percent(cell.nominal_retention), cell.status, escape(cell.reason or "")]
    dense = document.dense
    return [
        units.percent(cell.retention.realised),
        _speedup(cell.prefill_speedup),
        _speedup(cell.total_speedup),
        units.percent((cell.counted_macs or 0) / dense.counted_macs, 0),
        units.percent((cell.fastv_macs or 0) / dense.fastv_macs, 0),
        units.percent((cell.kv_bytes or 0) / dense.kv_bytes, 0),
        *([_accuracy(cell.accuracy)] if cell.accuracy is not None else []),
    ]


def _accuracy(found: Accuracy | None) -> str:
    return "" if found is None else units.percent(found.value, 0 if found.value == 1 else 1)


def _table(title: str, *columns: str) -> Table:
    """Narrow enough for 80 columns, plain enough to paste."""
    return Table(
        *columns,
        title=escape(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )


def _speedup(quantity: Measured | None) -> str:
    return "" if quantity is None else escape(units.times_within(quantity.value, quantity.ci95))


def _break_evens(document: Document) -> Table:
    table = _table("pruning pays up to this retention", "method", "quantity", "break-even")
    for method, by_quantity in document.break_even_by_method.items():
        for quantity, found in by_quantity.items():
            table.add_row(escape(method), quantity, escape(_break_even(found)))
    return table


def _break_even(found: BreakEven) -> str:
    if found.status == "crossing" and found.retention is not None:
        low, high = (100 * bound for bound in found.ci95 or (0, 0))
        around = f" [{low:.1f}, {high:.1f}]" if low < high else ""
        return units.percent(found.retention) + around
    return {
        "always": "pays at every retention of the sweep",
        "never": "pays at none",
        "inconclusive": "inconclusive: the noise allows both",
    }.get(found.status, found.status)


def print_flops(document: FlopsDocument, scale: int) -> None:
    """The walk from the claim to the count. scale: 1 for MACs, 2 for FLOPs."""
    console = Console()
    unit = "MACs" if scale == 1 else "FLOPs"
    what = document.method or "dense"
    counted = document.counted
    now = "counted" if document.selection_counted else "counted, selection declared"
    walks = [
        (
            scale,
            f"{what} on {document.study.model}: one prefill, {unit}",
            "claimed: the paper's f(n)",
            document.claimed.fastv_macs,
            (*document.terms, Term(name="residual", macs=document.residual_macs)),
            now,
        )
    ]
    if counted.fvcore_macs is not None:
        terms = (*counted.fvcore_terms, Term(name="residual", macs=counted.fvcore_residual_macs or 0))
        walks.append(
            (scale, f"torch's counter and fvcore, {unit}", now, counted.torch_flops // 2, terms, "counted by fvcore")
        )
    if (printed := document.printed) is not None:
        terms = (*printed.terms, Term(name="residual", macs=printed.residual_macs))
        walks.append((1, f"from the print to MACs: {printed.name}", "printed", printed.figure, terms, now))
    for factor, title, first, start, terms, last in walks:
        console.print(_waterfall(title, first, start, terms, last, factor), "")
    if document.causal == "half":
        console.print(f"with causal attention halved: {units.exact(scale * document.analytic_macs)} {unit}")
    if (kept := document.retention) is not None:
        shares = (kept.nominal, kept.layer_average, kept.final_layer, kept.realised)
        nominal, average, final, realised = (units.percent(share, 2) for share in shares)
        console.print(f"retention: {nominal} asked, {average} of the layers, {final} in the last, {realised} realised")
    if (gammas := document.gammas) is not None:
        by = {"by autograd": gammas.autograd, "by its tail": gammas.tail, "counted": gammas.counted}
        found = "".join(f", {units.factor(value)} {how}" for how, value in by.items() if value is not None)
        console.print(
            f"γ: {units.factor(gammas.assumed)} assumed by the claim, {units.factor(gammas.declared)} declared{found}"
        )
    decoding = document.decoding
    residual = decoding.residual_macs
    counts = "" if residual is None else f", residual {units.exact(scale * residual)}"
    console.print(f"decoding {decoding.steps} further tokens: {units.exact(scale * decoding.macs)} {unit}{counts}")
    elements = sum(document.elements.values())
    console.print(f"without a product: {units.count(elements)} elements of {', '.join(document.elements)}; no MACs")
    if counted.fvcore_reason:
        console.print(f"fvcore: {escape(counted.fvcore_reason)}")
    if not document.complete:
        lost = ", ".join(part.op for part in document.uncounted if part.product)
        console.print(f"INCOMPLETE: {escape(lost)} ran without a formula")
    for found in document.conventions:
        console.print(f"claimed: {escape(_convention(found))}")


def print_layers(document: LayersDocument) -> None:
    """Each layer and stage, what lies beside them, and the walk from the claimed speed-up to the measured one."""
    console = Console()
    what = f"{document.method} on {document.study.model}"
    table = _table(f"{what}: forward of each decoder layer", "layer")
    for name in ("tokens", "dense", "pruned", "of dense"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in _alike(document.layers):
        first, last = run[0], run[-1]
        dense, pruned = (sum(getattr(one, f"{side}forward_ms").value for one in run) for side in ("dense_", ""))
        table.add_row(
            f"{first.layer} … {last.layer}" if last.layer > first.layer else str(first.layer),
            str(first.tokens),
            units.milliseconds(dense),
            units.milliseconds(pruned),
            units.percent(pruned / dense, 0),
        )
    console.print(table, "")
    stages = _table("stages", "after layer", "tokens")
    names = ("proxy_forward", "proxy_loss", "backward", "nms", "selection", "compaction")
    for name in names:
        stages.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for stage in document.stages:
        found = (getattr(stage, f"{name}_ms") for name in names)
        spent = ("" if one is None else units.milliseconds(one.value) for one in found)
        stages.add_row(str(stage.layer), f"{stage.tokens_before} → {stage.tokens_after}", *spent)
    console.print(stages, "")
    beside = _table("beside the layers", "part")
    for name in ("dense", "pruned"):
        beside.add_column(name, justify="right", no_wrap=True)
    for part in document.parts:
        beside.add_row(part.name, units.milliseconds(part.dense_ms.value), units.milliseconds(part.ms.value))
    console.print(beside, "")
    walk = _table("from the claimed speed-up to the measured one", "step")
    for name in ("adds", "speed-up"):
        walk.add_column(name, justify="right", no_wrap=True)
    for step in document.attribution:
        walk.add_row(step.name, units.milliseconds(step.added_ms), units.times(step.speedup))
    console.print(walk, "")
    totals = document.totals
    console.print(
        f"whole prefill: {units.milliseconds(totals.prefill_ms.value)} against "
        f"{units.milliseconds(totals.dense_prefill_ms.value)} dense, "
        f"{escape(units.times_within(totals.prefill_speedup.value, totals.prefill_speedup.ci95))} "
        f"({totals.prefill_speedup.samples} rounds, {totals.prefill_speedup.stopped})"
    )
    decode = document.decode
    console.print(
        f"{decode.name}: {units.milliseconds(decode.ms.value)} against "
        f"{units.milliseconds(decode.dense_ms.value)} dense, which makes the whole generation "
        f"{units.times(document.total_attribution[-1].speedup)} as fast"
    )
    console.print(
        f"layers, modules and stages make {units.percent(totals.named.value)} of it, "
        f"{units.percent(totals.dense_named.value)} dense; marks cost a factor of "
        f"{escape(units.times_within(totals.instrumented.value, totals.instrumented.ci95))}"
    )
    bounds = document.bounds
    console.print(
        f"MFU {units.percent(bounds.mfu)}, dense {units.percent(bounds.dense_mfu)} of "
        f"{units.count(bounds.flops_per_second, 'FLOP/s')} measured; no prefill of this work can be faster than "
        f"{units.milliseconds(bounds.least_ms)}, dense {units.milliseconds(bounds.dense_least_ms)}"
    )
    for name, path in (("trace", document.trace), ("report", document.report)):
        if path:
            console.print(f"{name}: {escape(path)}", soft_wrap=True)


def print_evaluation(document: Evaluation) -> None:
    """Each task's scores, dense beside pruned, and what its answers took."""
    console = Console()
    method, asked = document.study.methods[0], document.study.retentions[0]
    table = _table(
        f"{method} at {units.percent(asked)} on {document.study.model}: scores of lmms-eval {document.lmms_eval}",
        "task",
        "metric",
    )
    for name in ("dense", "pruned", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for task in document.tasks:
        for number, score in enumerate(task.scores):
            name = score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"
            dense = "" if score.dense is None else f"{score.dense:.4f}"
            cells = (escape(name), dense, f"{score.pruned:.4f}", escape(_difference(score)))
            table.add_row("" if number else escape(task.task), *cells)
    console.print(table, "")
    paired = any(task.same_answer for task in document.tasks)
    times = _table(f"the same answers: {'dense over pruned' if paired else 'milliseconds'}", "task")
    for name in ("questions", "retention", "same\nanswer", "prefill", "total"):
        times.add_column(name, justify="right", no_wrap=True)
    for task in document.tasks:
        if task.retention is not None and task.prefill_ms is not None and task.total_ms is not None:
            if task.same_answer is not None:
                same = units.percent(task.same_answer.value, 0)
                took = (same, _speedup(task.prefill_speedup), _speedup(task.total_speedup))
            else:
                took = ("", *(units.factor(quantity.value) for quantity in (task.prefill_ms, task.total_ms)))
            times.add_row(escape(task.task), str(task.questions), units.percent(task.retention), *took)
    if times.row_count:
        console.print(times)


def _difference(score: Score) -> str:
    if score.difference is None:
        return ""
    around = "" if score.ci95 is None else " [{:+.4f}, {:+.4f}]".format(*score.ci95)
    return f"{score.difference:+.4f}{around}"


def print_theory(document: TheoryDocument) -> None:
    """The bound's correlations at each stage, the saliencies at each layer, and what follows."""
    console = Console()
    stages = _table(f"{document.study.model}: the bound's term against KL, rank correlations", "after\nlayer")
    for name in ("all\nremovals", "within a\nquestion", "as many\nkept", "the same,\nno saliency"):
        stages.add_column(name, justify="right", no_wrap=True)
    for stage in document.stages:
        found = (stage.spearman, stage.within_question, stage.same_kept, stage.norms_same_kept)
        stages.add_row(str(stage.layer), *(_correlation(one).replace(" ", "\n", 1) for one in found))
    console.print(stages, "")
    layers = _table(f"saliency by depth, {document.visual_tokens} visual tokens", "layer")
    for name in ("agrees with\nlast layer", "top 11 %\nin common", "above\nthe mean"):
        layers.add_column(name, justify="right", no_wrap=True)
    for layer in document.layers:
        overlap = units.percent_within(layer.top_overlap.value, layer.top_overlap.ci95)
        agreement = _correlation(layer.last_layer_agreement)
        layers.add_row(str(layer.layer), agreement, escape(overlap), units.count(layer.above_mean.value))
    console.print(layers, "")
    for sentence in theory_sentences(document):
        console.print(escape(sentence))
    if document.report:
        console.print(f"report: {escape(document.report)}", soft_wrap=True)


def _correlation(found: Estimate | None) -> str:
    return "" if found is None else escape(units.correlation(found.value, found.ci95))


def _alike(layers: Sequence[LayerTimes]) -> list[list[LayerTimes]]:
    """Neighbouring layers that run on as many tokens."""
    return [list(run) for _, run in groupby(layers, key=lambda layer: layer.tokens)]


def _convention(found: Match) -> str:
    """A convention that prints the claim, or does not."""
    what = f"{found.code}: {found.name} = {units.exact(found.value)}"
    if found.printed != "no":
        return f"{what} ({found.printed})"
    if found.text_tokens is not None:
        low, high = found.text_tokens
        return f"{what}; would print it with {low if low == high else f'{low} to {high}'} text tokens"
    return f"{what}, off by {units.percent(found.off, 2)}: no convention in use prints it"


def _waterfall(title: str, first: str, start: int, terms: Sequence[Term], last: str, scale: int) -> Table:
    """A walk: each term with what it adds and the bar between the sums before and after it."""
    table = _table(title, "term")
    for _ in range(2):
        table.add_column("", justify="right", no_wrap=True)
    table.add_column("")
    sums = list(accumulate((term.macs for term in terms), initial=start))
    top = max(*sums, 1)

    def row(name: str, macs: int, low: int, high: int) -> None:
        bar = Bar(top, min(low, high), max(low, high), width=20)
        table.add_row(escape(name), units.exact(scale * macs), units.count(scale * macs), bar)

    row(first, start, 0, start)
    for term, before, after in zip(terms, sums, sums[1:], strict=False):
        row(f"  {term.name}", term.macs, before, after)
    row(last, sums[-1], 0, sums[-1])
    return table


def print_doubts(measurements: Sequence[Measurement], found: Sequence[Doubt]) -> None:
    """Each doubt under its cell, with what to do about it."""
    console = Console()
    for where, group in groupby(found, key=lambda doubt: doubt.cell):
        console.print(f"[bold]{escape(cell_name(where))}[/bold]")
        for doubt in group:
            console.print(f"  {doubt.kind}: {escape(doubt.sentence)}")
            console.print(f"    → {escape(doubt.next_step)}")
    done = [measurement.cell.id for measurement in measurements if measurement.status == "done"]
    doubted = {doubt.cell.id for doubt in found if doubt.cell is not None} & set(done)
    console.print(
        f"{len(done)} cells measured, {len(measurements) - len(done)} failed: "
        f"{len(doubted)} doubted, {len(done) - len(doubted)} sound"
    )


def print_checks(rows: Sequence[Mapping[str, Any]]) -> None:
    """What each family's self-check saw, a row for each attention."""
    table = _table("pruning on a toy of each family's class")
    for name in ("family", "class", "attention", "identical\nat 1", "from\nautograd", "same\nkept", "decodes"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        difference = row["difference"]
        table.add_row(
            row["family"],
            row["class"].removesuffix("ForConditionalGeneration"),
            row["attention"],
            _yes(row["identical"]),
            "" if difference is None else units.tiny(difference),
            _yes(row["same_kept"]),
            _yes(row["generates"]),
        )
    Console().print(table)


def _yes(answer: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[answer]


def print_plan(study: Study, shape: Shape, planned: Sequence["Planned"]) -> None:
    """The cells that a sweep would run, with their cost by formula, and the longest it can take."""
    console = Console()
    table = Table(
        "method", "retention", "layer average", "layers", "budgets", "f(n) MACs", "of which F_ov", "choice MACs"
    )
    for cell in planned:
        table.add_row(
            escape(cell.cell.method),
            units.percent(cell.cell.retention),
            units.percent(cell.schedule.layer_average, 2),
            escape(str(list(cell.schedule.layers))),
            escape(str(list(cell.schedule.budgets))),
            units.count(cell.fastv_macs(shape, study.gamma)),
            units.count(cell.fastv_overhead_macs(shape, study.gamma)),
            units.count(cell.selection_macs(shape)),
        )
    console.print(table)
    console.print(
        f"{len(planned)} cells, {shape.visual_tokens} visual and {shape.text_tokens} text tokens; about "
        f"{units.duration(study.cell_seconds * len(planned))} of measured time, warm-up and counting apart"
    )


def plan_document(study: Study, shape: Shape, planned: Sequence["Planned"]) -> str:
    """The same as JSON."""
    cells = [
        {
            "method": cell.cell.method,
            "retention": {
                "nominal": cell.cell.retention,
                "layer_average": cell.schedule.layer_average,
                "final_layer": cell.schedule.final_layer,
            },
            "layers": cell.schedule.layers,
            "budgets": cell.schedule.budgets,
            "fastv_macs": cell.fastv_macs(shape, study.gamma),
            "fastv_overhead_macs": cell.fastv_overhead_macs(shape, study.gamma),
            "selection_macs": cell.selection_macs(shape),
        }
        for cell in planned
    ]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "study": study.model_dump(),
        "shape": shape.model_dump(),
        "cells": cells,
        "seconds": study.cell_seconds * len(planned),
    }
    return json.dumps(document, indent=2)
