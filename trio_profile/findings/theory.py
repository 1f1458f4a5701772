"""The report of the paper's theory, tested: its bound against what removing did, and its saliency layer by layer."""

from collections.abc import Callable
from itertools import pairwise

from trio_profile import units
from trio_profile.analysis.theory import TOP, StageTheory, TheoryDocument
from trio_profile.findings import charts as figures
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table
from trio_profile.records.estimate import Estimate


def report(document: TheoryDocument) -> Report:
    """All pages of it."""
    study = document.study
    return Report(
        subject="The paper's theory",
        model=study.model,
        facts=[
            document.environment.device_name,
            study.dtype,
            f"{document.questions} questions",
            f"{document.visual_tokens} visual tokens",
            f"probe {document.probe}, rows {document.rows}, k_pos {document.k_pos}",
        ],
        pages=[page(document) for page in PAGES],
        data=document.model_dump_json(),
    )


def bound_page(document: TheoryDocument) -> Page:
    """Does the bound's term order the divergences?"""
    rows = [
        [
            Entry(str(stage.layer)),
            Entry(", ".join(str(kept) for kept in stage.kept)),
            *(
                _correlation(found)
                for found in (stage.spearman, stage.within_question, stage.same_kept, stage.norms_same_kept)
            ),
            Entry("–" if stage.least_constant is None else units.plain(stage.least_constant)),
            Entry("–" if (looseness := _looseness(stage)) is None else units.factor(looseness)),
        ]
        for stage in document.stages
    ]
    columns = (
        "after layer",
        "tokens kept",
        "all removals",
        "within a question",
        "as many kept",
        "the same, without saliency",
        "least C",
        "over the median",
    )
    return Page(
        "bound",
        "The bound and the divergence",
        "The paper bounds KL(dense ‖ pruned) by C · (Σ s · ‖h‖)² over the removed tokens, s being their saliency and "
        "h what enters the probed layer. Tokens are removed after one layer alone: by TRIO, by its ranking without "
        "NMS, by that ranking upside down, and at random. Rank correlations (Spearman) ask whether a larger term "
        "goes with a larger divergence: 1 always, 0 not at all. Removing more makes both larger, whatever is chosen; "
        "only choices that keep as many tokens tell of the saliency, and beside them stands the term without it, (Σ "
        "‖h‖)². Least C is the smallest constant with which the bound holds in every removal; over that of the "
        "median one, it says how loose the bound is. With a constant that is free no removal refutes a bound; tested "
        "is what the paper concludes from it, that removing what makes the term small keeps the output. Intervals "
        "are 95 %, from other draws of the questions.",
        [
            Sentences("", sentences(document)[: len(document.stages)]),
            Chart(
                "bound",
                "Each point a removal; a colour a stage",
                "The bound's term against the measured divergence; the table below holds the correlations",
                figures.bound(document),
            ),
            Table("Rank correlation of the term with the divergence", columns, rows, groups=_groups()),
        ],
    )


def agreement_page(document: TheoryDocument) -> Page:
    """Is a layer's own saliency that of the last layer?"""
    return Page(
        "agreement",
        "A layer's own saliency and the last layer's",
        "The paper ranks tokens by the gradient of a loss read off the current layer, in the place of the model's own "
        "loss behind all layers, and shows on pictures that both agree, more so with depth (its figure of current "
        "against last). Here both are gradients at what enters the layer: their rank correlation over the visual "
        f"tokens, and the share of the top {units.percent(TOP, 0)} that they have in common, of which chance gives "
        f"{units.percent(TOP, 0)} (dotted). In the last layer they are the same by definition. Upright: the stages.",
        [
            Sentences("", [_depth_sentence(document)]),
            Chart(
                "agreement",
                "Agreement, mean over questions",
                "Agreement of each layer's saliency with the last layer's; the table at the end holds the values",
                figures.agreement(document),
            ),
        ],
    )


def counts_page(document: TheoryDocument) -> Page:
    """Where does saliency change?"""
    rows = [
        [
            Entry(str(layer.layer)),
            _correlation(layer.last_layer_agreement),
            Entry(units.percent_within(layer.top_overlap.value, layer.top_overlap.ci95)),
            Entry(
                units.count(layer.above_mean.value),
                note=" to ".join(units.count(end) for end in layer.above_mean.ci95),
            ),
        ]
        for layer in document.layers
    ]
    return Page(
        "counts",
        "Tokens above the mean saliency",
        "How many visual tokens of a question have a saliency above the layer's mean, averaged over questions: few "
        "where few tokens matter. The paper chooses its pruning layers early, and where this count changes most (its "
        "figure of layer-wise statistics). Upright: the stages.",
        [
            Sentences("", [_count_sentence(document)]),
            Chart(
                "counts",
                "Tokens above the mean, mean over questions",
                "Visual tokens above the mean saliency by layer; the table below holds the values",
                figures.above_mean(document),
            ),
            Table("Every layer", ("layer", "rank correlation", "top in common", "above the mean"), rows),
        ],
    )


PAGES: tuple[Callable[[TheoryDocument], Page], ...] = (bound_page, agreement_page, counts_page)


def sentences(document: TheoryDocument) -> list[str]:
    """What stands out: a line a stage, then the depths."""
    return [
        *(_stage_sentence(stage) for stage in document.stages),
        _depth_sentence(document),
        _count_sentence(document),
    ]


def _stage_sentence(stage: StageTheory) -> str:
    after, found = f"After layer {stage.layer}", stage.same_kept
    if stage.spearman is None:
        return f"{after} nothing was removed, or nothing moved: the bound says nothing there."
    pooled = f"term and divergence correlate by {units.correlation(stage.spearman.value, stage.spearman.ci95)}"
    if found is None:
        return f"{after}: {pooled}."
    low, high = found.ci95
    verdict = (
        "a larger term goes with a larger divergence"
        if low > 0
        else "a larger term goes with a smaller divergence"
        if high < 0
        else "the term does not tell which choice diverges more"
    )
    return (
        f"{after}: {pooled}; among choices that keep as many, {units.correlation(found.value, found.ci95)}, {verdict}."
    )


def _depth_sentence(document: TheoryDocument) -> str:
    # The last layer agrees with itself, and says nothing.
    known = [(layer.layer, layer.last_layer_agreement) for layer in document.layers[:-1] if layer.last_layer_agreement]
    if not known:
        return "No layer's saliency can be held against the last layer's."
    least = min(known, key=lambda one: one[1].value)[0]
    named = {stage.layer for stage in document.stages} | {least}
    parts = ", ".join(
        f"{units.correlation(found.value, found.ci95)} at layer {layer}{', the least' if layer == least else ''}"
        for layer, found in known
        if layer in named
    )
    said, trend = f"Agreement with the last layer is {parts}", document.agreement_trend
    if trend is None:
        return f"{said}."
    low, high = trend.ci95
    course = "grows" if low > 0 else "falls" if high < 0 else "neither grows nor falls"
    return f"{said}; with depth it {course} (rank correlation {units.correlation(trend.value, trend.ci95)})."


def _count_sentence(document: TheoryDocument) -> str:
    steps = [
        (later.above_mean.value - earlier.above_mean.value, earlier.layer, later.layer)
        for earlier, later in pairwise(document.layers)
    ]
    if not steps:
        return "One layer has no step to another."
    change, earlier, later = max(steps, key=lambda step: abs(step[0]))
    verb = "rises" if change > 0 else "falls"
    return (
        f"The count above the mean changes most from layer {earlier} to {later}, where it {verb} by "
        f"{units.count(abs(change))} of {document.visual_tokens} tokens."
    )


def _looseness(stage: StageTheory) -> float | None:
    if stage.least_constant is None or not stage.median_ratio:
        return None
    return stage.least_constant / stage.median_ratio


def _groups() -> tuple[tuple[str, int], ...]:
    return (("", 2), ("rank correlation", 4), ("the constant", 2))


def _correlation(found: Estimate | None) -> Entry:
    if found is None:
        return Entry("–", tone="absent")
    tone = "gain" if found.ci95[0] > 0 else "loss" if found.ci95[1] < 0 else ""
    return Entry(units.correlation(found.value, found.ci95), tone=tone)
