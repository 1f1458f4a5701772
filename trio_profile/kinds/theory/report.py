"""The report of the paper's theory, tested: its bound against what removing did, and its saliency layer by layer."""

from collections.abc import Callable, Iterator

from trio_profile import units
from trio_profile.kinds.theory import above_mean, charts
from trio_profile.kinds.theory.document import TOP, StageTheory, TheoryDocument
from trio_profile.quantities import entries
from trio_profile.records.estimate import Estimate
from trio_profile.report.blocks import Entry, Page, Report, Sentences, Table, Terms
from trio_profile.report.page import pixel_facts


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
            *_interrupted(document),
            Sentences("", [_stage_sentence(stage) for stage in document.stages]),
            charts.bound(document),
            Table(
                "Rank correlation of the bound's term with the divergence",
                ("after layer", "all removals", "same number kept", "same number kept, no saliency"),
                [
                    [
                        Entry(str(stage.layer)),
                        *map(_correlation, (stage.spearman, stage.same_kept, stage.norms_same_kept)),
                    ]
                    for stage in document.stages
                ],
            ),
            _all_correlations(document),
            Terms("What the numbers mean", _MEANINGS, detail=True),
        ],
    )


_MEANINGS = (
    ("the term", "(Σ s · ‖h‖)². s is a token's saliency, and h is what enters the probed layer."),
    (
        "rank correlation",
        "Spearman's. 1: a larger term always goes with a larger divergence. 0: they are unrelated. −1: the opposite.",
    ),
    (
        "same number kept",
        "Only selections that keep the same number of tokens are compared. Removing more tokens makes term and "
        "divergence larger, whichever they are, so only this column says something about the saliency.",
    ),
    ("no saliency", "The same with the term (Σ ‖h‖)²."),
    (
        "least C",
        "The smallest constant with which the bound holds in every removal. No measurement refutes a free constant.",
    ),
    ("over the median", "Least C divided by the constant of the median removal. It says how loose the bound is."),
    ("intervals", "95 %, from resampling the questions."),
)


def _questions(document: TheoryDocument) -> str:
    """`30 questions`, or `12 of 30 questions` of an interrupted study."""
    if document.interrupted:
        return f"{units.exact(document.questions)} of {units.number_of(document.planned, 'question')}"
    return units.number_of(document.questions, "question")


def _visual_tokens(document: TheoryDocument) -> str:
    """`576 visual tokens`, or `8 to 32 visual tokens` if the pictures differ."""
    return f"{units.span(*document.visual_tokens_range)} visual tokens"


def _interrupted(document: TheoryDocument) -> Iterator[Sentences]:
    """Say that questions are missing."""
    if document.interrupted:
        text = f"The study was interrupted: {_questions(document)} are measured, and every number here is of these."
        yield Sentences("", [f"{text} The same command measures all of them."], tone="doubt")


def _all_correlations(document: TheoryDocument) -> Table:
    """Every correlation of every stage, with the constant of the bound."""
    columns = (
        "after layer",
        "tokens kept",
        "all removals",
        "within a question",
        "same number kept",
        "same number kept, no saliency",
        "least C",
        "over the median",
    )
    rows = [
        [
            Entry(str(stage.layer)),
            Entry(_kept(stage, len(set(document.study.retentions)))),
            *map(_correlation, (stage.spearman, stage.within_question, stage.same_kept, stage.norms_same_kept)),
            entries.NOTHING if stage.least_constant is None else Entry(units.plain(stage.least_constant)),
            entries.NOTHING if (looseness := _looseness(stage)) is None else Entry(units.factor(looseness)),
        ]
        for stage in document.stages
    ]
    return Table("Every rank correlation, and the bound's constant C", columns, rows, detail=True)


def _kept(stage: StageTheory, shares: int) -> str:
    """The numbers of kept tokens; their range if pictures of many sizes have too many of them."""
    return (
        ", ".join(map(str, stage.kept)) if len(stage.kept) <= shares else units.span(min(stage.kept), max(stage.kept))
    )


def _looseness(stage: StageTheory) -> float | None:
    """The least constant over that of the median removal."""
    if stage.least_constant is None or not stage.median_ratio:
        return None
    return stage.least_constant / stage.median_ratio


def _correlation(correlation: Estimate | None) -> Entry:
    if correlation is None:
        return entries.NOTHING
    return Entry(_text(correlation), tone=entries.tone(correlation.ci95, 0))


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
        [Sentences("", [_depth_sentence(document)]), charts.agreement(document)],
    )


def counts_page(document: TheoryDocument) -> Page:
    """Where does saliency change?"""
    rows = [
        [
            Entry(str(layer.layer)),
            _correlation(layer.last_layer_agreement),
            Entry(units.percent_within(layer.top_overlap.value, layer.top_overlap.ci95)),
            above_mean.above_entry(layer.above_mean),
            above_mean.above_entry(layer.above_mean_share),
        ]
        for layer in document.layers
    ]
    top = f"top {units.percent(TOP, 0)} in common"
    columns = ("layer", "agrees with last layer", top, "above the mean", "share above the mean")
    return Page(
        "counts",
        "Tokens above the mean saliency",
        "How many visual tokens of a question have a saliency above the layer's mean, averaged over questions. A small "
        "share means that few tokens matter. The paper selects pruning layers that are early, and where this number "
        "changes much (its figure of layer-wise statistics, one curve for each benchmark). We draw the share, because "
        "pictures differ in their number of tokens. The tables have the number too. Questions about one picture are "
        "resampled together. Vertical lines mark the stages.",
        [
            Sentences("", above_mean.sentences(document)),
            charts.above_mean(document),
            *above_mean.tables(document),
            Table(f"Saliency by depth, {_visual_tokens(document)}", columns, rows),
        ],
        folded="Show how many tokens are above the mean",
    )


PAGES: tuple[Callable[[TheoryDocument], Page], ...] = (bound_page, agreement_page, counts_page)


def sentences(document: TheoryDocument) -> list[str]:
    """The main results: a line for each stage, then the effect of depth."""
    return [
        *(_stage_sentence(stage) for stage in document.stages),
        _depth_sentence(document),
        *above_mean.sentences(document),
    ]


def _stage_sentence(stage: StageTheory) -> str:
    """A sentence on the bound after one layer."""
    after, correlation = f"After layer {stage.layer}", stage.same_kept
    if stage.spearman is None:
        return f"{after}: nothing was removed, or the output did not move. The bound says nothing here."
    pooled = f"{after}, the bound's term and the divergence have a rank correlation of {_text(stage.spearman)}."
    if correlation is None:
        return pooled
    low, high = correlation.ci95
    verdict = (
        "a larger term goes with a larger divergence"
        if low > 0
        else "a larger term goes with a smaller divergence"
        if high < 0
        else "the term does not tell which selection diverges more"
    )
    return f"{pooled} Among selections of equal size it is {_text(correlation)}: {verdict}."


def _depth_sentence(document: TheoryDocument) -> str:
    """How far the layers' own saliency agrees with the last layer's."""
    # The last layer always agrees with itself.
    known = [(layer.layer, layer.last_layer_agreement) for layer in document.layers[:-1] if layer.last_layer_agreement]
    if not known:
        return "No layer's saliency can be compared with the last layer's: one of the two never varies."
    least = min(known, key=lambda known_layer: known_layer[1].value)[0]
    named = {stage.layer for stage in document.stages} | {least}
    parts = ", ".join(
        f"{_text(agreement)} at layer {layer}{' (the lowest)' if layer == least else ''}"
        for layer, agreement in known
        if layer in named
    )
    sentence, trend = f"Agreement with the last layer is {parts}.", document.agreement_trend
    if trend is None:
        return sentence
    low, high = trend.ci95
    course = "grows" if low > 0 else "falls" if high < 0 else "neither grows nor falls"
    return f"{sentence} With depth it {course} (rank correlation {_text(trend)})."
