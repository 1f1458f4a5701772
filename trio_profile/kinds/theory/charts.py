"""Charts of the paper's theory, tested."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.kinds.theory.above_mean import group, shares
from trio_profile.kinds.theory.document import TOP, StageTheory, TheoryDocument, TokenShare
from trio_profile.records.estimate import Estimate
from trio_profile.report.blocks import Axis, Chart, Series, Upright

_VALUES = 'The table "Saliency by depth" has the values.'
"""Where the values of the charts over layers stand."""


def bound(document: TheoryDocument) -> Chart:
    """The bound's term and the measured divergence of each removal, both logarithmic. A stage is a colour."""
    return Chart(
        id="bound",
        caption="Each point is a removal, each colour a stage",
        label="The bound's term against the measured divergence. The table below has the rank correlations.",
        x=Axis("(Σ s · ‖h‖)² over the removed tokens", log=True),
        y=Axis("KL(dense ‖ pruned) of the next token, nats", log=True),
        series=[_removals(stage, number) for number, stage in enumerate(document.stages)],
        height=460,
    )


def _removals(stage: StageTheory, colour: int) -> Series:
    # A removal that removed nothing, or moved nothing, has no place on a logarithmic axis.
    positive = [removal for removal in stage.removals if removal.bound > 0 and removal.kl_nats > 0]
    return Series(
        name=f"after layer {stage.layer}",
        x=[removal.bound for removal in positive],
        y=[removal.kl_nats for removal in positive],
        text=[
            f"{removal.selection}\nquestion {removal.question + 1}, {removal.kept} tokens kept\n"
            f"term {units.short(removal.bound)}, KL {units.short(removal.kl_nats)} nats"
            for removal in positive
        ],
        colour=colour,
        line=None,
        size=5,
        opacity=0.55,
    )


def agreement(document: TheoryDocument) -> Chart:
    """Each layer's own saliency against the last layer's: rank correlation, and share of the top tokens in common."""
    layers = document.layers
    correlations = [layer.last_layer_agreement for layer in layers]
    overlaps = [layer.top_overlap for layer in layers]
    lows = [agreement.ci95[0] for agreement in (*correlations, *overlaps) if agreement is not None]
    top = f"top {units.percent(TOP, 0)}"
    ends = [0.0, len(layers) + 1.0]
    return Chart(
        id="agreement",
        caption="Agreement with the last layer, mean over questions",
        label=f"Rank correlation and share of the {top} in common, layer by layer. {_VALUES}",
        x=_depth(document),
        y=Axis("Agreement with the last layer", min(0.0, *lows) - 0.05, 1.05),
        series=[
            _by_layer(
                "rank correlation", 0, correlations, lambda estimate: units.correlation(estimate.value, estimate.ci95)
            ),
            _by_layer(
                f"{top} in common", 1, overlaps, lambda estimate: units.percent_within(estimate.value, estimate.ci95)
            ),
            Series(f"{top} by chance", ends, [TOP, TOP], colour=1, line="dot", points=False, width=1),
        ],
        levels=[0],
        uprights=_stages(document),
    )


def above_mean(document: TheoryDocument) -> Chart:
    """The share of visual tokens with a saliency above the layer's mean, by layer. Each benchmark has a curve."""
    curves = shares(document)
    of_all, *of_benchmarks = [
        _by_layer(
            name,
            colour,
            [_in_percent(share) for share in values],
            lambda share: f"{units.count(share.value)} % of the visual tokens",
        )
        for colour, (name, values) in enumerate(curves.items(), start=-1)
    ]
    highest = max(100 * value.ci95[1] for values in curves.values() for value in values)
    table = f'The table "Share of visual tokens above the mean saliency, by {group(document)}" has the values.'
    return Chart(
        id="counts",
        caption="Share of visual tokens above the mean saliency, mean over questions",
        label=f"A curve for each {group(document)}. {table}" if of_benchmarks else f"A point for each layer. {_VALUES}",
        x=_depth(document),
        y=Axis("Visual tokens above the mean", 0, 1.1 * highest, suffix=" %"),
        series=[
            replace(of_all, colour=None, line="dash") if of_benchmarks else replace(of_all, colour=0, legend=False),
            *of_benchmarks,
        ],
        uprights=_stages(document),
    )


def _in_percent(share: TokenShare) -> TokenShare:
    low, high = share.ci95
    return share.model_copy(update={"value": 100 * share.value, "ci95": (100 * low, 100 * high)})


def _by_layer(
    name: str,
    colour: int,
    values: Sequence[Estimate | None],
    text: Callable[[Estimate], str],
) -> Series:
    """A line over the layers with its interval. Layers without a value are left out."""
    known = [(layer, value) for layer, value in enumerate(values, start=1) if value is not None]
    return Series(
        name=name,
        x=[layer for layer, _ in known],
        y=[value.value for _, value in known],
        low=[value.ci95[0] for _, value in known],
        high=[value.ci95[1] for _, value in known],
        text=[f"{name}\nlayer {layer}: {text(value)}" for layer, value in known],
        colour=colour,
        group=name,
    )


def _depth(document: TheoryDocument) -> Axis:
    return Axis("Decoder layer", 0, len(document.layers) + 1, digits=0)


def _stages(document: TheoryDocument) -> list[Upright]:
    return [Upright(stage.layer + 0.5, dash="dot") for stage in document.stages]
