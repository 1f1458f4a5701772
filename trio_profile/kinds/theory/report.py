"""The report of the paper's theory, tested: its bound against what removing did, and its saliency layer by layer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.inputs.questions import FEWEST
from trio_profile.kinds.theory.document import (
    TOP,
    Benchmark,
    Count,
    LayerTheory,
    MeanShare,
    StageTheory,
    TheoryDocument,
)
from trio_profile.quantities import entries
from trio_profile.records.estimate import Estimate
from trio_profile.report.blocks import (
    Axis,
    Chart,
    Entry,
    Page,
    Report,
    Sentences,
    Series,
    Table,
    Terms,
    tabulate,
)
from trio_profile.report.charts import line
from trio_profile.report.definitions import meanings
from trio_profile.report.page import pixel_facts, unfinished
from trio_profile.text import listed

ALL = "all questions"
"""The name of the curve over all questions."""
_VALUES = 'The table "Saliency by depth" has the values.'
"""Where the values of the charts over layers stand."""


def report(document: TheoryDocument) -> Report:
    """The report of the paper's theory, tested."""
    study = document.study
    return Report(
        subject="The paper's theory",
        model=study.model,
        facts=[
            document.environment.device_name,
            study.dtype,
            _questions(document),
            _visual_tokens(document),
            *pixel_facts(study),
            f"probe {document.probe}, rows {document.rows}, k_pos {document.k_pos}",
        ],
        pages=[page(document) for page in PAGES],
        data=document.model_dump_json(),
        banner=unfinished(document.planned - document.questions, document.planned, "question"),
    )


def bound_page(document: TheoryDocument) -> Page:
    """Does a larger term of the bound go with a larger divergence?"""
    return Page(
        "bound",
        "The bound and the divergence",
        "The paper bounds the divergence of pruned from dense, KL(dense ‖ pruned), by C · (Σ s · ‖h‖)² over the "
        "removed tokens. It concludes that removing tokens with a small term keeps the output. We remove tokens after "
        "one layer alone, and ask whether a larger term goes with a larger divergence. They are removed in four ways: "
        "by TRIO, by its ranking without NMS, by that ranking upside down, and at random.",
        [
            *_silent(document.stages),
            _correlations(document.stages),
            bound_chart(document),
            Terms("What the numbers mean", [*meanings("theory").items()], detail=True),
        ],
    )


def _questions(document: TheoryDocument) -> str:
    """`30 questions`, or `12 of 30 questions` of an interrupted study."""
    if document.interrupted:
        return f"{units.exact(document.questions)} of {units.number_of(document.planned, 'question')}"
    return units.number_of(document.questions, "question")


def _visual_tokens(document: TheoryDocument) -> str:
    """`576 visual tokens`, or `8 to 32 visual tokens` if the pictures differ."""
    return f"{units.span(*document.visual_tokens_range)} visual tokens"


def _correlations(stages: Sequence[StageTheory]) -> Table:
    """The correlations of every stage, and behind them the constant of the bound."""
    columns: dict[str, Callable[[StageTheory], Entry]] = {
        "after layer": lambda stage: Entry(str(stage.layer)),
        "all removals": lambda stage: _correlation(stage.spearman),
        "same number kept": lambda stage: _correlation(stage.same_kept),
        "same number kept, no saliency": lambda stage: _correlation(stage.norms_same_kept),
        "least C": lambda stage: _number(stage.least_constant, units.plain),
        "over the median": lambda stage: _number(_looseness(stage), units.factor),
    }
    return tabulate("Rank correlation of the bound's term with the divergence", columns, stages, first=4)


def _number(value: float | None, text: Callable[[float], str]) -> Entry:
    return entries.NOTHING if value is None else Entry(text(value))


def _looseness(stage: StageTheory) -> float | None:
    """The least constant over that of the median removal."""
    if stage.least_constant is None or not stage.median_ratio:
        return None
    return stage.least_constant / stage.median_ratio


def _correlation(correlation: Estimate | None) -> Entry:
    return Entry(_text(correlation), tone=entries.tone(correlation.ci95, 0)) if correlation else entries.NOTHING


def _text(correlation: Estimate) -> str:
    return units.correlation(correlation.value, correlation.ci95)


def agreement_page(document: TheoryDocument) -> Page:
    """Does a layer's own saliency agree with the last layer's?"""
    return Page(
        "agreement",
        "A layer's own saliency and the last layer's",
        "The paper ranks tokens by the gradient of a loss that is read off the current layer. It stands for the "
        "model's own loss, which is read off behind the last layer. The paper shows on pictures that both agree, and "
        "agree more with depth (its figure of current against last). Here both are gradients at what enters the layer. "
        f"We show their rank correlation over the visual tokens, and the share of the top {units.percent(TOP, 0)} "
        f"that they have in common. Chance alone gives {units.percent(TOP, 0)} (dotted). In the last layer both are "
        "the same by definition. Vertical lines mark the stages.",
        [Sentences("", [_depth_sentence(document)]), agreement_chart(document)],
    )


def counts_page(document: TheoryDocument) -> Page:
    """Where does saliency change?"""
    return Page(
        "counts",
        "Tokens above the mean saliency",
        "How many visual tokens of a question have a saliency above the layer's mean, averaged over questions. A small "
        "share means that few tokens matter. The paper selects pruning layers that are early, and where this number "
        "changes much (its figure of layer-wise statistics, one curve for each benchmark). We draw the share, because "
        "pictures differ in their number of tokens. Questions about one picture are resampled together. Vertical lines "
        "mark the stages.",
        [
            Sentences("", [*above_mean_sentences(document)]),
            above_mean_chart(document),
            *_benchmarks(document.benchmarks),
            _by_depth(document),
        ],
        folded="Show how many tokens are above the mean",
    )


PAGES: tuple[Callable[[TheoryDocument], Page], ...] = (bound_page, agreement_page, counts_page)


def _silent(stages: Sequence[StageTheory]) -> Iterator[Sentences]:
    """Say after which layers the bound says nothing."""
    layers = [str(stage.layer) for stage in stages if stage.spearman is None]
    if layers:
        text = "nothing was removed, or the output did not move. The bound says nothing here."
        yield Sentences("", [f"After layer {listed(layers)}: {text}"])


def _depth_sentence(document: TheoryDocument) -> str:
    """Where the layers' own saliency agrees least with the last layer's, and whether agreement grows with depth."""
    # The last layer always agrees with itself.
    known = [(layer.layer, layer.last_layer_agreement) for layer in document.layers[:-1] if layer.last_layer_agreement]
    if not known:
        return "No layer's saliency can be compared with the last layer's: one of the two never varies."
    layer, least = min(known, key=lambda known_layer: known_layer[1].value)
    sentence = f"Agreement with the last layer is lowest at layer {layer}: {_text(least)}."
    if (trend := document.agreement_trend) is None:
        return sentence
    low, high = trend.ci95
    course = "grows" if low > 0 else "falls" if high < 0 else "neither grows nor falls"
    return f"{sentence} With depth it {course} (rank correlation {_text(trend)})."


# --- the share of tokens above the mean -------------------------------------------------------------------------------


def curves(document: TheoryDocument) -> dict[str, list[MeanShare]]:
    """The share at each layer by the name of its curve: all questions, then each benchmark or kind of question."""
    layers = document.layers
    of_benchmarks = {
        name: [layer.above_mean_share_by_benchmark[name] for layer in layers]
        for name in layers[0].above_mean_share_by_benchmark
    }
    return {ALL: [layer.above_mean_share for layer in layers], **of_benchmarks}


def above_mean_sentences(document: TheoryDocument) -> Iterator[str]:
    """Between which layers the share changes most, and the benchmarks without a curve."""
    shares = [layer.above_mean_share.value for layer in document.layers]
    if len(shares) == 1:
        yield "There is one layer, so there is no change from layer to layer."
        return
    earlier = max(range(1, len(shares)), key=lambda layer: abs(shares[layer] - shares[layer - 1]))
    before, after = shares[earlier - 1], shares[earlier]
    yield (
        f"The share of visual tokens above the mean changes most from layer {earlier} to layer {earlier + 1}: "
        f"it {'rises' if after > before else 'falls'} from {units.percent(before)} to {units.percent(after)}."
    )
    few = [
        f"{benchmark.name} ({benchmark.questions})" for benchmark in document.benchmarks if benchmark.questions < FEWEST
    ]
    if few:
        yield f"An interval needs {FEWEST} questions, so there is no curve for {listed(few)}."


def _benchmarks(benchmarks: Sequence[Benchmark]) -> list[Table]:
    """The questions of each benchmark. Empty if there are no benchmarks."""
    columns: dict[str, Callable[[Benchmark], Entry]] = {
        "curve": lambda benchmark: Entry(benchmark.name),
        "questions": lambda benchmark: Entry(units.exact(benchmark.questions)),
        "pictures": lambda benchmark: Entry(units.exact(benchmark.pictures)),
        "visual tokens": lambda benchmark: Entry(units.span(*benchmark.visual_tokens)),
    }
    return [tabulate("Questions of each curve", columns, benchmarks, compact=True)] if benchmarks else []


def _by_depth(document: TheoryDocument) -> Table:
    """The saliency at each layer. The share above the mean is also given for each benchmark."""
    columns: dict[str, Callable[[LayerTheory], Entry]] = {
        "layer": lambda layer: Entry(str(layer.layer)),
        "agrees with last layer": lambda layer: _correlation(layer.last_layer_agreement),
        f"top {units.percent(TOP, 0)} in common": lambda layer: above_entry(layer.top_overlap),
        "above the mean": lambda layer: above_entry(layer.above_mean),
        "share above the mean": lambda layer: above_entry(layer.above_mean_share),
    }
    for name in document.layers[0].above_mean_share_by_benchmark:
        columns[f"share, {name}"] = lambda layer, name=name: above_entry(layer.above_mean_share_by_benchmark[name])
    return tabulate(f"Saliency by depth, {_visual_tokens(document)}", columns, document.layers)


def above_entry(estimate: Estimate) -> Entry:
    """A share or a count with its interval."""
    within = units.count_within if isinstance(estimate, Count) else units.percent_within
    return Entry(within(estimate.value, estimate.ci95), order=estimate.value)


# --- charts -----------------------------------------------------------------------------------------------------------


def bound_chart(document: TheoryDocument) -> Chart:
    """The bound's term and the measured divergence of each removal, both logarithmic. A stage is a colour."""
    return Chart(
        id="bound",
        caption="Each point is a removal, each colour a stage",
        label="The bound's term against the measured divergence. The table above has the rank correlations.",
        x=Axis("(Σ s · ‖h‖)² over the removed tokens", log=True),
        y=Axis("KL(dense ‖ pruned) of the next token, nats", log=True),
        series=[_removals(stage, number) for number, stage in enumerate(document.stages)],
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
    )


def agreement_chart(document: TheoryDocument) -> Chart:
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
            _layer_line("rank correlation", 0, correlations, _text),
            _layer_line(f"{top} in common", 1, overlaps, lambda overlap: above_entry(overlap).text),
            Series(f"{top} by chance", ends, [TOP, TOP], colour=1, line="dot", points=False),
        ],
        levels=[0],
        uprights=_stages(document),
    )


def above_mean_chart(document: TheoryDocument) -> Chart:
    """The share of visual tokens with a saliency above the layer's mean, by layer. Each benchmark has a curve."""
    shares = curves(document)
    of_all, *of_benchmarks = [
        _layer_line(
            name, colour, values, lambda share: f"{units.count(100 * share.value)} % of the visual tokens", scale=100
        )
        for colour, (name, values) in enumerate(shares.items(), start=-1)
    ]
    highest = max(100 * value.ci95[1] for values in shares.values() for value in values)
    return Chart(
        id="counts",
        caption="Share of visual tokens above the mean saliency, mean over questions",
        label=f"The share by layer, over all questions and for each benchmark or kind of question. {_VALUES}",
        x=_depth(document),
        y=Axis("Visual tokens above the mean", 0, 1.1 * highest, suffix=" %"),
        series=[
            replace(of_all, colour=None, line="dash") if of_benchmarks else replace(of_all, colour=0, legend=False),
            *of_benchmarks,
        ],
        uprights=_stages(document),
    )


def _layer_line(
    name: str, colour: int, values: Sequence[Estimate | None], text: Callable[[Estimate], str], scale: float = 1
) -> Series:
    """A line over the layers with its interval. Layers without a value are left out."""
    known = [(layer, value) for layer, value in enumerate(values, start=1) if value is not None]
    points = [(layer, value, f"{name}\nlayer {layer}: {text(value)}") for layer, value in known]
    return line(name, points, scale, colour=colour)


def _depth(document: TheoryDocument) -> Axis:
    return Axis("Decoder layer", 0, len(document.layers) + 1)


def _stages(document: TheoryDocument) -> list[float]:
    return [stage.layer + 0.5 for stage in document.stages]
