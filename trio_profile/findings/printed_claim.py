"""Which convention gives the figure of `flops --claimed`, in sentences."""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.analysis.flops import FlopsDocument
from trio_profile.cost.conventions import Convention, Match
from trio_profile.text import listed

DENSE_PAPER = Convention()
"""The convention of the paper's dense figures: the number of layers times f(V0)."""


def sentences(document: FlopsDocument) -> list[str]:
    """Each convention, then the γ of the paper's formula, then who counts other numbers of visual tokens."""
    by_gamma = [found for found in document.conventions if found.gamma is not None]
    by_convention = [found for found in document.conventions if found.gamma is None]
    return [
        *(_convention(found, document) for found in by_convention),
        *_gammas(by_gamma, document),
        *_counts(document),
    ]


def _convention(found: Match, document: FlopsDocument) -> str:
    """What one convention gives, beside the printed figure."""
    if found.printed != "no":
        how = "Rounded" if found.printed == "rounded" else "Cut off, not rounded"
        return f"{_gives(found, document)}. {how}, that is the printed figure. It counts {found.name}."
    if found.text_tokens is not None:
        low, high = found.text_tokens
        tokens = units.number_of(low, "text token") if low == high else f"{low} to {high} text tokens"
        return f"{found.code} would give the printed figure with {tokens}."
    dense = " If it is the figure of the dense model, leave out --retention." if document.study.retentions else ""
    return (
        f"No convention in use gives the printed figure. The nearest is {found.code}: {units.exact(found.value)}, "
        f"off by {units.percent(found.off, 2)}.{dense}"
    )


def _gives(found: Match, document: FlopsDocument) -> str:
    """The value of a convention. A dense figure of another number of visual tokens is written as the paper does."""
    value, other = units.exact(found.value), f"{found.code} with {found.visual_tokens} visual tokens"
    if found.visual_tokens is None:
        return f"{found.code} gives {value}"
    if found.convention == DENSE_PAPER:
        return f"{document.num_layers} · f({found.visual_tokens}) is {value}: {other}"
    return f"{other} gives {value}"


def _gammas(found: list[Match], document: FlopsDocument) -> Iterator[str]:
    """The γ with which the paper's formula gives the figure, by the number of visual tokens."""
    needed: list[str] = []
    for one in found:
        low, high = (units.factor(end) for end in one.gamma or (0, 0))
        tokens = one.visual_tokens or document.visual_tokens
        needed.append(f"{low}{'' if low == high else f' to {high}'} with {tokens} visual tokens")
    if needed:
        yield f"The paper's formula F_inf + γ · Σ f(V) gives the printed figure if γ is {listed(needed)}."
        yield (
            "One figure does not decide between γ and the conventions above. `trio-profile audit` counts as the dense "
            "figure of the same table does. It leaves the budgets open too, so its interval of γ is wider."
        )


def _counts(document: FlopsDocument) -> Iterator[str]:
    """Who counts each other number of visual tokens."""
    sources = {found.visual_tokens: found.counted_by for found in document.conventions if found.visual_tokens}
    others = [f"{tokens} are {source}." for tokens, source in sources.items()]
    if others:
        yield " ".join([f"This input has {document.visual_tokens} visual tokens.", *others])
