"""The document of `trio-profile theory`: the paper's bound against the divergence that was measured; saliency by depth.

Intervals draw the questions anew (percentile bootstrap): what belongs to one question hangs together.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from trio_profile.records.estimate import Correlation, Count, Estimate, Overlap
from trio_profile.records.schema import FORMAT, VERSION, Environment, Record, Removal, Study

TOP = 0.11
"""The share of the tokens that are the top ones: what the paper's sparsest setting keeps."""
RESAMPLES = 1000

Values = NDArray[np.float64]
E = TypeVar("E", bound=Estimate)


class StageTheory(Record):
    """Removals after one layer alone. kept: how many tokens stayed, of the smallest to the largest share.

    Rank correlations (Spearman) of the bound's term with the measured divergence; None where nothing varies. spearman:
    over all removals. within_question: over those of a question, averaged over questions. same_kept: over choices that
    keep as many tokens of a question, averaged likewise; what removing more does to both is left out.
    norms_same_kept: that of the term without saliency. least_constant: the smallest C for which the bound holds in
    every removal, None where a term of 0 moved something, which no C allows; median_ratio: divergence over term in the
    middle one of the terms above 0. Both None where there is no such term.
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
    """One decoder layer, averaged over questions.

    last_layer_agreement: rank correlation, over visual tokens, of the layer's own saliency with the gradient of the
    last layer's loss at the same place (the paper's fig:vs, as a number). top_overlap: share of the top 11 % that both
    have in common; chance gives 11 %. above_mean: visual tokens whose saliency exceeds the mean (its fig:avg_token).
    """

    layer: int
    last_layer_agreement: Correlation | None
    top_overlap: Overlap
    above_mean: Count


class TheoryDocument(Record):
    """What `trio-profile theory --json` prints. questions: asked, or pictures drawn. visual_tokens: of the first.

    probe, rows, k_pos: of the saliency in the bound, as options of TRIO. stages: where it was tested. agreement_trend:
    rank correlation of a layer's agreement with its number, the last layer left out, averaged over questions.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
    questions: int
    visual_tokens: int
    probe: str
    rows: str
    k_pos: int
    stages: tuple[StageTheory, ...]
    layers: tuple[LayerTheory, ...]
    agreement_trend: Correlation | None
    report: str | None = None


def stage(layer: int, removals: Sequence[Removal], seed: int = 0) -> StageTheory:
    """What the removals after one layer say of the bound; every question has as many of them."""
    own = [removal for removal in removals if removal.layer == layer]
    questions = {removal.question: [other for other in own if other.question == removal.question] for removal in own}
    bound, norms, kl = (
        np.array([[getattr(removal, name) for removal in some] for some in questions.values()])
        for name in ("bound", "norms", "kl_nats")
    )
    kept = np.array([[removal.kept for removal in some] for some in questions.values()])
    told = bound > 0
    ratios = kl[told] / bound[told]
    return StageTheory(
        layer=layer,
        kept=tuple(sorted({removal.kept for removal in own})),
        spearman=estimate(
            Correlation, len(bound), lambda some: rank_correlation(_pooled(bound, some), _pooled(kl, some)), seed
        ),
        within_question=mean(Correlation, rank_correlation(bound, kl), seed),
        same_kept=mean(Correlation, _at_same_kept(bound, kl, kept), seed),
        norms_same_kept=mean(Correlation, _at_same_kept(norms, kl, kept), seed),
        least_constant=float(ratios.max()) if len(ratios) and not (kl[~told] > 0).any() else None,
        median_ratio=float(np.median(ratios)) if len(ratios) else None,
        removals=tuple(own),
    )


def by_depth(current: Sequence[Values], last: Sequence[Values], seed: int = 0) -> tuple[LayerTheory, ...]:
    """Every layer, from saliencies [L, N] of each question: the layer's own, and by the last layer's loss."""
    agreement = _agreement(current, last)
    overlap = np.array([top_overlap(a, b) for a, b in zip(current, last, strict=True)])
    counts = np.array([(a > a.mean(axis=-1, keepdims=True)).sum(axis=-1) for a in current], dtype=float)
    found: list[LayerTheory] = []
    for index in range(agreement.shape[1]):
        shared, above = mean(Overlap, overlap[:, index], seed), mean(Count, counts[:, index], seed)
        assert shared is not None and above is not None
        found.append(
            LayerTheory(
                layer=index + 1,
                last_layer_agreement=mean(Correlation, agreement[:, index], seed),
                top_overlap=shared,
                above_mean=above,
            )
        )
    return tuple(found)


def agreement_trend(current: Sequence[Values], last: Sequence[Values], seed: int = 0) -> Correlation | None:
    """Whether agreement grows with depth: 1 at every step, −1 falls at every step. Arguments as of `by_depth`."""
    # The last layer agrees with itself by definition.
    below = _agreement(current, last)[:, :-1]
    depths = np.broadcast_to(np.arange(below.shape[1], dtype=float), below.shape)
    whole = ~np.isnan(below).any(axis=1)
    return mean(Correlation, rank_correlation(below[whole], depths[whole]), seed)


def rank_correlation(x: Values, y: Values) -> Values:
    """Spearman's, along the last axis; NaN where one side does not vary."""
    x, y = (rankdata(side, axis=-1) for side in (x, y))
    x, y = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    with np.errstate(invalid="ignore"):
        return (x * y).sum(axis=-1) / np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))


def top_overlap(x: Values, y: Values, share: float = TOP) -> Values:
    """Share of the top tokens [..., N] that both rankings have in common; ties go to the lower index."""
    count = max(1, round(share * x.shape[-1]))
    first, second = (np.argsort(-side, axis=-1, kind="stable")[..., :count] for side in (x, y))
    return (first[..., :, None] == second[..., None, :]).any(axis=-1).mean(axis=-1)


def mean(kind: type[E], values: Values, seed: int = 0) -> E | None:
    """Over questions [Q]; those without a value are left out, and without any there is none."""
    defined = values[~np.isnan(values)]
    return estimate(kind, len(defined), lambda some: defined[some].mean(axis=-1), seed)


def estimate(kind: type[E], questions: int, of: Callable[[NDArray[np.intp]], Values], seed: int = 0) -> E | None:
    """`of` the questions [R, Q], each row one draw of them: as they are, and drawn anew for the interval."""
    if questions == 0:
        return None
    value = of(np.arange(questions)[None])[0]
    drawn = of(np.random.default_rng(seed).integers(questions, size=(RESAMPLES, questions)))
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(value) or len(drawn) == 0:
        return None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return kind(value=float(value), ci95=(float(low), float(high)), samples=questions)


def _agreement(current: Sequence[Values], last: Sequence[Values]) -> Values:
    """[Q, L] rank correlation of the two saliencies."""
    return np.array([rank_correlation(a, b) for a, b in zip(current, last, strict=True)])


def _pooled(values: Values, some: NDArray[np.intp]) -> Values:
    """[Q, P] by question → [R, Q · P] of the drawn ones."""
    return values[some].reshape(len(some), -1)


def _at_same_kept(bound: Values, kl: Values, kept: NDArray[np.intp]) -> Values:
    """[Q] rank correlations among the choices that keep as many tokens, averaged over those numbers."""
    found: list[float] = []
    for x, y, numbers in zip(bound, kl, kept, strict=True):
        each = np.array([rank_correlation(x[numbers == n], y[numbers == n]) for n in np.unique(numbers)])
        defined = each[~np.isnan(each)]
        found.append(float(defined.mean()) if len(defined) else np.nan)
    return np.array(found)
