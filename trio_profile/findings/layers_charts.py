"""Charts of one prefill's time."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.attribution import Step as WalkStep
from trio_profile.analysis.layers import LayerTimes, PrefillTimes
from trio_profile.findings.blocks import Axis, Chart, Series, Step, Upright, Waterfall
from trio_profile.records.estimate import Milliseconds


def forwards(cell: PrefillTimes) -> Chart:
    """The forward of each decoder layer, dense and pruned, with its interval. Stages are upright lines."""
    layers = cell.layers
    dense = [layer.dense_forward_ms for layer in layers]
    pruned = [layer.forward_ms for layer in layers]
    top = max(found.ci95[1] for found in (*dense, *pruned))
    return Chart(
        id="layers",
        caption="Forward of each decoder layer",
        label="Milliseconds of each layer, dense and pruned. The table of all layers has the same numbers.",
        x=Axis("Decoder layer", 0, len(layers) + 1, digits=0),
        y=Axis("Milliseconds", 0, 1.05 * top),
        series=[_by_layer("dense", None, layers, dense), _by_layer(cell.method, 0, layers, pruned)],
        uprights=[Upright(stage.layer + 0.5, dash="dot") for stage in cell.stages],
    )


def _by_layer(name: str, colour: int | None, layers: Sequence[LayerTimes], found: Sequence[Milliseconds]) -> Series:
    return Series(
        name=name,
        x=[layer.layer for layer in layers],
        y=[time.value for time in found],
        low=[time.ci95[0] for time in found],
        high=[time.ci95[1] for time in found],
        text=[
            f"{name}\nlayer {layer.layer}: {units.milliseconds(time.value)}"
            for layer, time in zip(layers, found, strict=True)
        ],
        colour=colour,
        group=name,
    )


def attribution(steps: Sequence[WalkStep]) -> Waterfall:
    """From the time that the claim promises to the time that was measured.

    steps: the first one is the claim; each other one adds the milliseconds that a part took beyond its promise.
    """
    first, *rest = (Step(step.name, step.added_ms, units.milliseconds(step.added_ms)) for step in steps)
    end = sum(step.added_ms for step in steps)
    last = Step("measured, sum of the parts", end, units.milliseconds(end))
    label = f"A waterfall from {first.text} to {last.text}, part by part."
    return Waterfall("walk", "One prefill, milliseconds", label, first, rest, last)
