"""The report of one prefill's time: layer by layer, stage by stage, from the claimed speed-up to the measured one."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.analysis.attribution import Step
from trio_profile.analysis.layers import LayersDocument
from trio_profile.findings import charts as figures
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table
from trio_profile.records.estimate import Measured

_SPANS = ("proxy_forward", "proxy_loss", "backward", "nms", "selection", "compaction")
_STEP = ("step", "adds", "speed-up after it")


def report(document: LayersDocument) -> Report:
    """All pages of it."""
    study = document.study
    return Report(
        subject=document.method,
        model=study.model,
        facts=[
            document.environment.device_name,
            study.dtype,
            f"{study.attention} attention",
            f"batch {study.batch}",
            f"{units.percent(document.retention.realised)} retention",
        ],
        pages=[page(document) for page in PAGES],
        data=document.model_dump_json(),
    )


def walk_page(document: LayersDocument) -> Page:
    """Why the claim did not become time."""
    speedup, claimed = document.totals.prefill_speedup, document.claimed_ratio
    steps = document.attribution
    most = max(steps[1:], key=lambda step: step.added_ms)
    lines = [
        f"The formula says {units.factor(claimed)} times less work; the prefill is "
        f"{units.times_within(speedup.value, speedup.ci95)} as fast as dense.",
        f"The largest step between them: {most.name}, {units.milliseconds(most.added_ms)}.",
    ]
    figure = figures.waterfall(
        "claimed",
        steps[0].added_ms,
        [(step.name, step.added_ms) for step in steps[1:]],
        "measured, part by part",
        text=units.milliseconds,
    )
    whole = document.total_attribution
    lines.append(
        f"With what follows the prefill, {whole[-1].name}, a generation is {units.times(whole[-1].speedup)} as fast as "
        "dense."
    )
    return Page(
        "walk",
        "From the claimed speed-up to the measured one",
        "The claim is that all of the prefill takes as much less time as the formula says less work. Each bar is a "
        "part that took more, or less: medians, whose sum differs a little from the whole's.",
        [
            Sentences("", lines),
            Chart("walk", "Milliseconds", "A waterfall; the table below holds its steps", figure),
            Table("Step by step", _STEP, _steps(steps)),
            Table("And to a whole generation", _STEP, _steps((whole[0], whole[-1])), compact=True),
        ],
    )


def layers_page(document: LayersDocument) -> Page:
    """Every decoder layer."""
    rows = [
        [
            Entry(str(layer.layer)),
            Entry(str(layer.tokens), note=f"of {layer.dense_tokens}"),
            _time(layer.dense_forward_ms),
            _time(layer.forward_ms),
        ]
        for layer in document.layers
    ]
    return Page(
        "layers",
        "Every decoder layer",
        "The forward of each layer, in its 95 % interval. What a stage costs stands on the next page, not here.",
        [
            Chart("layers", "Forward, ms", "Milliseconds of each layer, dense and pruned", figures.layers(document)),
            Table("Forward", ("layer", "tokens", "dense", "pruned"), rows),
        ],
    )


def stages_page(document: LayersDocument) -> Page:
    """Every stage, and what lies beside the layers."""
    stages = [
        [
            Entry(str(stage.layer)),
            Entry(f"{stage.tokens_before} → {stage.tokens_after}"),
            *(_time(getattr(stage, f"{name}_ms")) for name in _SPANS),
        ]
        for stage in document.stages
    ]
    parts = [[Entry(part.name), _time(part.dense_ms), _time(part.ms)] for part in document.parts]
    totals = document.totals
    whole = [
        [Entry("whole prefill, without marks"), _time(totals.dense_prefill_ms), _time(totals.prefill_ms)],
        [Entry("named: layers, modules, stages"), _share(totals.dense_named), _share(totals.named)],
        [Entry("with marks over without"), _ratio(totals.dense_instrumented), _ratio(totals.instrumented)],
    ]
    bounds = document.bounds
    whole += [
        [Entry("MFU"), Entry(units.percent(bounds.dense_mfu)), Entry(units.percent(bounds.mfu))],
        [
            Entry("MBU, every weight read once"),
            Entry(units.percent(bounds.dense_mbu)),
            Entry(units.percent(bounds.mbu)),
        ],
        [
            Entry("least time at the measured peaks", note=units.count(bounds.flops_per_second, "FLOP/s")),
            Entry(units.milliseconds(bounds.dense_least_ms)),
            Entry(units.milliseconds(bounds.least_ms)),
        ],
    ]
    columns = ("after layer", "tokens", *(name.replace("_", " ") for name in _SPANS))
    return Page(
        "stages",
        "Stages, and what lies beside the layers",
        "Selection is a stage's whole choice and holds what stands before it; compaction drops the tokens. Gaps are "
        "time in no module: masks, positions, hooks and Python.",
        [
            Table("Stages", columns, stages),
            Table("Beside the layers", ("part", "dense", "pruned"), parts, compact=True),
            Table("Whole", ("", "dense", "pruned"), whole, compact=True),
        ],
    )


PAGES: tuple[Callable[[LayersDocument], Page], ...] = (walk_page, layers_page, stages_page)


def _steps(steps: Sequence[Step]) -> list[list[Entry]]:
    return [[Entry(s.name), Entry(units.milliseconds(s.added_ms)), Entry(units.times(s.speedup))] for s in steps]


def _time(found: Measured | None) -> Entry:
    if found is None:
        return Entry("–")
    low, high = found.ci95
    return Entry(units.milliseconds(found.value), title=f"{units.milliseconds(low)} to {units.milliseconds(high)}")


def _share(found: Measured) -> Entry:
    return Entry(units.percent_within(found.value, found.ci95))


def _ratio(found: Measured) -> Entry:
    return Entry(units.times(found.value, found.ci95), note=units.interval(found.ci95))
