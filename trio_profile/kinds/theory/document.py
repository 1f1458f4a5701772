"""The document of `trio-profile theory`: the paper's bound, the measured divergence, and the saliency at each layer.

The intervals resample whole questions (percentile bootstrap), because the measurements of one question depend on each
other. Questions that share a picture are resampled together. `pictures` is the number of the picture of each question,
[Q]; empty if each question has a picture of its own.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import pearsonr, rankdata

from trio_profile import units
from trio_profile.inputs.questions import FEWEST
from trio_profile.judge.claims import of_bounds
from trio_profile.judge.sureness import Weakness
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Estimate, Interval
from trio_profile.records.record import OneOrMore, Record, ZeroOrMore
from trio_profile.stats.intervals import widened
from trio_profile.stats.resampling import draws, percentile_interval

TOP = 0.11
"""The share of the tokens that are called the top tokens. The paper's sparsest setting keeps this share."""
RESAMPLES = 1000

Values = NDArray[np.float64]
E = TypeVar("E", bound=Estimate)


class Correlation(Estimate):
    """A rank correlation, −1 to 1."""


class MeanShare(Estimate):
    """A share, 0 to 1, averaged over questions."""


class Count(Estimate):
    """A number of tokens, averaged over questions."""


class Removal(Record):
    """Tokens of one question that one selection removed after one layer.

    question: number of the question, from 0.
    layer: the layer after which tokens are removed, from 1.
    selection: name of the selection.
    kept: number of visual tokens that stayed.
    bound: (Σ s_i · ‖h_i‖)² over the removed tokens: the paper's bound on the divergence, without its constant.
    norms: the same without saliency, (Σ ‖h_i‖)².
    kl_nats: KL(dense ‖ pruned) of the next token.
    """

    question: ZeroOrMore
    layer: OneOrMore
    selection: str
    kept: ZeroOrMore
    bound: Annotated[float, Field(ge=0)]
    norms: Annotated[float, Field(ge=0)]
    kl_nats: float


class StageTheory(Record):
    """How well the bound predicts the divergence when tokens are removed after one layer.

    The correlations are rank correlations (Spearman) of the bound's term with the measured divergence. A correlation is
    None if one of its sides does not vary.

    layer: the layer after which tokens were removed.
    kept: the numbers of tokens that stayed, ascending.
    spearman: over all removals.
    within_question: over the removals of one question, averaged over questions.
    same_kept: over the removals of one question that keep the same number of tokens, averaged over questions. Here a
        correlation cannot come from the number of removed tokens, which raises both sides.
    norms_same_kept: the same, for the term without saliency.
    least_constant: the smallest constant C for which the bound holds in every removal. None if no constant suffices,
        because the output changed although the term is 0.
    median_ratio: the median of divergence / term, over terms above 0. None if all terms are 0.
    removals: the measurements.
    """

    layer: int
    kept: tuple[int, ...]
    spearman: Correlation | None
    within_question: Correlation | None
    same_kept: Correlation | None
    norms_same_kept: Correlation | None
    least_constant: float | None
    median_ratio: float | None
    removals: tuple[Removal, ...]


class LayerTheory(Record):
    """The saliency at one decoder layer, averaged over questions.

    last_layer_agreement: the rank correlation, over visual tokens, of two saliencies: by the layer's own loss and by
        the last layer's loss (the paper's fig:vs as a number).
    top_overlap: the share of the top 11 % that both saliencies have in common. Random selections share 11 %.
    above_mean: the number of visual tokens with a saliency above the layer's mean (the paper's fig:avg_token).
    above_mean_share: the same as a share of the question's visual tokens.
    above_mean_by_benchmark, above_mean_share_by_benchmark: the same for the questions of each benchmark, by its name.
        A benchmark with fewer than ten questions is left out.
    """

    layer: int
    last_layer_agreement: Correlation | None
    top_overlap: MeanShare
    above_mean: Count
    above_mean_share: MeanShare
    above_mean_by_benchmark: dict[str, Count] = Field(default_factory=dict)
    above_mean_share_by_benchmark: dict[str, MeanShare] = Field(default_factory=dict)


class Benchmark(Record):
    """The questions that have a curve of their own: those of one file, or those of one kind if there is one file.

    name: the name of the file without its suffix, or the kind.
    questions, pictures: how many questions were measured, and about how many pictures.
    visual_tokens: the fewest and the most visual tokens of a question.
    """

    name: str
    questions: int
    pictures: int
    visual_tokens: tuple[int, int]


class TheoryDocument(StudyDocument):
    """The document of `trio-profile theory --json`.

    questions: number of questions, or of random pictures, that were measured.
    planned: number of questions that the study has. It is larger if the study was interrupted.
    visual_tokens: number of visual tokens of the first question.
    visual_tokens_range: the fewest and the most visual tokens of a question.
    probe, rows, k_pos: options of TRIO that define the saliency in the bound.
    stages: the layers after which the bound was tested.
    layers: the saliency at every layer.
    agreement_trend: rank correlation of a layer's agreement with its number, without the last layer, averaged over
        questions.
    benchmarks: the benchmarks of the questions, or their kinds, in the order in which they were asked. Empty if all
        questions are of one.
    report: path of report.html.
    """

    questions: int
    planned: int
    visual_tokens: int
    visual_tokens_range: tuple[int, int]
    probe: str
    rows: str
    k_pos: int
    stages: tuple[StageTheory, ...]
    layers: tuple[LayerTheory, ...]
    agreement_trend: Correlation | None
    benchmarks: tuple[Benchmark, ...] = ()
    report: str | None = None

    @property
    def interrupted(self) -> bool:
        """Whether questions of the study are missing, because it was interrupted."""
        return self.questions < self.planned


def stage(layer: int, removals: Sequence[Removal], seed: int = 0, pictures: Sequence[int] = ()) -> StageTheory:
    """Return the statistics of the removals after one layer.

    removals: those of all layers, by ascending question. Every question must have the same number of removals.
    """
    own = [removal for removal in removals if removal.layer == layer]
    questions = {removal.question: [other for other in own if other.question == removal.question] for removal in own}
    bound, norms, kl = (
        np.array([[getattr(removal, name) for removal in group] for group in questions.values()])
        for name in ("bound", "norms", "kl_nats")
    )
    kept = np.array([[removal.kept for removal in group] for group in questions.values()])
    positive = bound > 0
    ratios = kl[positive] / bound[positive]
    return StageTheory(
        layer=layer,
        kept=tuple(sorted({removal.kept for removal in own})),
        spearman=estimate(
            Correlation,
            len(bound),
            lambda drawn: rank_correlation(_pooled(bound, drawn), _pooled(kl, drawn)),
            seed,
            pictures,
        ),
        within_question=mean(Correlation, rank_correlation(bound, kl), seed, pictures),
        same_kept=mean(Correlation, _at_same_kept(bound, kl, kept), seed, pictures),
        norms_same_kept=mean(Correlation, _at_same_kept(norms, kl, kept), seed, pictures),
        least_constant=float(ratios.max()) if len(ratios) and not (kl[~positive] > 0).any() else None,
        median_ratio=float(np.median(ratios)) if len(ratios) else None,
        removals=tuple(own),
    )


def by_depth(
    current: Sequence[Values],
    last: Sequence[Values],
    seed: int = 0,
    pictures: Sequence[int] = (),
    names: Sequence[str] = (),
) -> tuple[LayerTheory, ...]:
    """Return the statistics of each layer.

    current: [L, N] of each question, the saliency by the layer's own loss.
    last: [L, N] of each question, the saliency by the last layer's loss.
    names: [Q] the benchmark of each question, as for `benchmarks`; empty if they have none.
    """
    agreement = _agreement(current, last)
    overlap = np.array([top_overlap(a, b) for a, b in zip(current, last, strict=True)])
    above = [a > a.mean(axis=-1, keepdims=True) for a in current]
    counts = np.array([tokens.sum(axis=-1) for tokens in above], dtype=float)
    shares = np.array([tokens.mean(axis=-1) for tokens in above])
    groups = {name: own for name, own in _groups(names).items() if len(own) >= FEWEST}

    everyone = list(range(len(current)))

    def over(kind: type[E], values: Values, own: Sequence[int] = everyone) -> E:
        clusters = [pictures[question] for question in own] if pictures else ()
        estimated = mean(kind, values[own], seed, clusters)
        assert estimated is not None
        return estimated

    return tuple(
        LayerTheory(
            layer=index + 1,
            last_layer_agreement=mean(Correlation, agreement[:, index], seed, pictures),
            top_overlap=over(MeanShare, overlap[:, index]),
            above_mean=over(Count, count),
            above_mean_share=over(MeanShare, share),
            above_mean_by_benchmark={name: over(Count, count, own) for name, own in groups.items()},
            above_mean_share_by_benchmark={name: over(MeanShare, share, own) for name, own in groups.items()},
        )
        for index, (count, share) in enumerate(zip(counts.T, shares.T, strict=True))
    )


def benchmarks(
    names: Sequence[str], visual_tokens: Sequence[int], pictures: Sequence[int] = ()
) -> tuple[Benchmark, ...]:
    """Return the benchmarks of the questions. It is empty if all questions are of one.

    names: [Q] the benchmark of each question; empty for a question that has none.
    visual_tokens: [Q] of each question.
    """
    members: list[Benchmark] = []
    for name, own in _groups(names).items():
        tokens = [visual_tokens[q] for q in own]
        different = len({pictures[q] for q in own}) if pictures else len(own)
        span = (min(tokens), max(tokens))
        members.append(Benchmark(name=name, questions=len(own), pictures=different, visual_tokens=span))
    return tuple(members)


def _groups(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the questions of each benchmark. It is empty if all questions are of one."""
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        groups.setdefault(name, []).append(number)
    return {name: own for name, own in groups.items() if name} if len(groups) > 1 else {}


def agreement_trend(
    current: Sequence[Values], last: Sequence[Values], seed: int = 0, pictures: Sequence[int] = ()
) -> Correlation | None:
    """Return 1 if the agreement grows from each layer to the next, −1 if it always falls, or a value in between.

    The arguments are those of `by_depth`.
    """
    # The last layer agrees with itself by definition.
    below = _agreement(current, last)[:, :-1]
    depths = np.broadcast_to(np.arange(below.shape[1], dtype=float), below.shape)
    trends = rank_correlation(below, depths)
    trends[np.isnan(below).any(axis=1)] = np.nan
    return mean(Correlation, trends, seed, pictures)


def rank_correlation(x: Values, y: Values) -> Values:
    """Return Spearman's rank correlation along the last axis. It is NaN if one side does not vary."""
    correlations = np.full(x.shape[:-1], np.nan)
    if x.size:
        varies = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
        if varies.any():
            ranks = (rankdata(side[varies], axis=-1) for side in (x, y))
            correlations[varies] = pearsonr(*ranks, axis=-1).statistic  # pyright: ignore[reportAttributeAccessIssue]
    return correlations


def top_overlap(x: Values, y: Values, share: float = TOP) -> Values:
    """Return the share of the top tokens that two rankings have in common, [...]. Ties go to the lower index.

    x, y: [..., N], one score for each token.
    share: the share of the tokens that are top tokens.
    """
    count = max(1, round(share * x.shape[-1]))
    first, second = (np.argsort(-side, axis=-1, kind="stable")[..., :count] for side in (x, y))
    return (first[..., :, None] == second[..., None, :]).any(axis=-1).mean(axis=-1)


def mean(kind: type[E], values: Values, seed: int = 0, pictures: Sequence[int] = ()) -> E | None:
    """Return the mean over questions with its interval; None if no question is left.

    values: [Q]. Questions with NaN are left out.
    """
    known = ~np.isnan(values)
    defined = values[known]
    clusters = np.asarray(pictures)[known].tolist() if len(pictures) else ()
    return estimate(kind, len(defined), lambda drawn: defined[drawn].mean(axis=-1), seed, clusters)


def estimate(
    kind: type[E],
    questions: int,
    of: Callable[[NDArray[np.intp]], Values],
    seed: int = 0,
    pictures: Sequence[int] = (),
) -> E | None:
    """Return a statistic of all questions with its interval; None if it is undefined.

    questions: number of questions.
    of: computes the statistic [R] from indices of questions [R, Q]. Each row is one resample.
    """
    if questions == 0:
        return None
    value = of(np.arange(questions)[None])[0]
    drawn = of(_drawn(questions, seed, tuple(pictures)))
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(value) or len(drawn) == 0:
        return None
    return kind(value=float(value), ci95=percentile_interval(drawn), samples=questions)


@lru_cache(maxsize=8)
def _drawn(questions: int, seed: int, pictures: tuple[int, ...]) -> NDArray[np.intp]:
    """Return the resamples, [R, Q]. All layers share them, because it takes long to draw pictures."""
    return draws(questions, RESAMPLES, seed, pictures)


def _agreement(current: Sequence[Values], last: Sequence[Values]) -> Values:
    """Return the rank correlation of the two saliencies at each layer, [Q, L]."""
    return np.array([rank_correlation(a, b) for a, b in zip(current, last, strict=True)])


def _pooled(values: Values, drawn: NDArray[np.intp]) -> Values:
    """Return the values of the resampled questions in one row for each resample: [Q, P] → [R, Q · P]."""
    return values[drawn].reshape(len(drawn), -1)


def _at_same_kept(bound: Values, kl: Values, kept: NDArray[np.intp]) -> Values:
    """Return the rank correlation of removals with the same number of kept tokens, averaged over these numbers, [Q]."""
    correlations: list[float] = []
    for x, y, numbers in zip(bound, kl, kept, strict=True):
        each = np.array([rank_correlation(x[numbers == n], y[numbers == n]) for n in np.unique(numbers)])
        defined = each[~np.isnan(each)]
        correlations.append(float(defined.mean()) if len(defined) else np.nan)
    return np.array(correlations)


def conclude(document: TheoryDocument) -> Conclusion:
    """Return whether a larger term of the paper's bound goes with a larger divergence, after each stage."""
    stages: dict[str, Interval | None] = {}
    for stage in document.stages:
        same = stage.same_kept
        # Resamples of few questions are too alike for an interval.
        known = None if same is None or same.samples < FEWEST else same
        stages[f"after layer {stage.layer}"] = known and widened(known.ci95, len(document.stages), known.samples)
    left = f"{units.exact(document.questions)} of {units.number_of(document.planned, 'question')} are measured"
    return of_bounds(stages, [Weakness("medium", left)] if document.interrupted else ())
