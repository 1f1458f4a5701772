"""With which number of visual tokens, or with which γ, does a convention give a printed figure?

One picture is counted in several ways: with line ends or without, as its base crop alone, or as a dataset's average.
Nothing here imports torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trio_profile.cost.conventions import PAPER, Match, Prefill, conventions, explain, match
from trio_profile.cost.printed import Printed

MOST_MATCHES = 4
"""How many conventions with another number of visual tokens are named, the simplest first."""
MOST_GAMMA = 10
"""The largest γ that is named. The paper's own procedure costs about two forwards."""


@dataclass(frozen=True)
class OtherCount:
    """The same prefill with another number of visual tokens.

    prefill: with this number in its shape and its layers.
    source: why papers count so, as the end of a sentence.
    """

    prefill: Prefill
    source: str

    @property
    def tokens(self) -> int:
        """The number of visual tokens of one picture."""
        return self.prefill.shape.visual_tokens


def explain_counts(claimed: Printed, prefill: Prefill, others: Sequence[OtherCount], gamma: float) -> list[Match]:
    """The conventions that give a claim, with the prefill's own visual tokens or with another number of them.

    Another number is tried if no convention gives the claim with the prefill's own. If none does either, the list
    begins as `conventions.explain` says. For a pruned prefill it ends with the γ that the paper's formula would need.

    gamma: the γ that the prefills' F_ov has.
    """
    matches = explain(claimed, prefill)
    if matches[0].printed == "no":
        matches = _with_other_counts(claimed, others) or matches
    return [*matches, *_with_gamma(claimed, prefill, others, gamma)]


def prefill_of(match: Match, prefill: Prefill, others: Sequence[OtherCount]) -> Prefill:
    """The prefill that a match is about: the given one, or one of the others."""
    return next((other.prefill for other in others if other.tokens == match.visual_tokens), prefill)


def _with_other_counts(claimed: Printed, others: Sequence[OtherCount]) -> list[Match]:
    """The simplest conventions that give a claim with another number of visual tokens.

    Conventions with the tower are left out, because the pictures of another count are not known.
    """
    matches = [
        tried.model_copy(update={"visual_tokens": other.tokens, "counted_by": other.source})
        for other in others
        for convention in conventions(overhead=bool(other.prefill.overhead_macs))
        if not convention.tower and (tried := match(claimed, convention, other.prefill)).printed != "no"
    ]
    return sorted(matches, key=lambda tried: tried.code.count("-"))[:MOST_MATCHES]


def _with_gamma(claimed: Printed, prefill: Prefill, others: Sequence[OtherCount], gamma: float) -> Iterator[Match]:
    """The γ with which F_inf + γ · Σ f(V) is the claim, for each number of visual tokens."""
    counts = [(None, "", prefill), *((other.tokens, other.source, other.prefill) for other in others)]
    for tokens, source, counted in counts:
        paper = match(claimed, PAPER, counted)
        if not counted.overhead_macs or paper.printed != "no":
            continue
        inference, looked_at = paper.value - counted.overhead_macs, counted.overhead_macs / gamma
        ends = (claimed.value - claimed.last / 2, claimed.value + claimed.last / 2)
        low, high = (float(end - inference) / looked_at for end in ends)
        if low > 0 and high < MOST_GAMMA:
            update = {"visual_tokens": tokens, "counted_by": source, "gamma": (low, high)}
            yield paper.model_copy(update=update)
