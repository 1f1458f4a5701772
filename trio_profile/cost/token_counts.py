"""With which number of visual tokens, or with which γ, does a convention give a printed figure?

One picture is counted in several ways: with line ends or without, as its base crop alone, or as a dataset's average.
Nothing here imports torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from trio_profile.cost.conventions import PAPER, Match, Prefill, conventions, explain, match

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


def explain_counts(claimed: Decimal, prefill: Prefill, others: Sequence[OtherCount], gamma: float) -> list[Match]:
    """The conventions that give a claim, with the prefill's own visual tokens or with another number of them.

    Another number is tried if no convention gives the claim with the prefill's own. If none does either, the list
    begins as `conventions.explain` says. For a pruned prefill it ends with the γ that the paper's formula would need.

    gamma: the γ that the prefills' F_ov has.
    """
    found = explain(claimed, prefill)
    if found[0].printed == "no":
        found = _with_other_counts(claimed, others) or found
    return [*found, *_with_gamma(claimed, prefill, others, gamma)]


def prefill_of(found: Match, prefill: Prefill, others: Sequence[OtherCount]) -> Prefill:
    """The prefill that a match is about: the given one, or one of the others."""
    return next((other.prefill for other in others if other.tokens == found.visual_tokens), prefill)


def _with_other_counts(claimed: Decimal, others: Sequence[OtherCount]) -> list[Match]:
    """The simplest conventions that give a claim with another number of visual tokens.

    Conventions with the tower are left out, because the pictures of another count are not known.
    """
    found = [
        tried.model_copy(update={"visual_tokens": other.tokens, "counted_by": other.source})
        for other in others
        for convention in conventions(overhead=bool(other.prefill.overhead_macs))
        if not convention.tower and (tried := match(claimed, convention, other.prefill)).printed != "no"
    ]
    return sorted(found, key=lambda one: one.code.count("-"))[:MOST_MATCHES]


def _with_gamma(claimed: Decimal, prefill: Prefill, others: Sequence[OtherCount], gamma: float) -> Iterator[Match]:
    """The γ with which F_inf + γ · Σ f(V) is the claim, for each number of visual tokens."""
    for tokens, source, tried in ((None, "", prefill), *((one.tokens, one.source, one.prefill) for one in others)):
        found = match(claimed, PAPER, tried)
        if not tried.overhead_macs or found.printed != "no":
            continue
        inference, looked_at = found.value - tried.overhead_macs, tried.overhead_macs / gamma
        last = Decimal(1).scaleb(claimed.adjusted() - len(claimed.as_tuple().digits) + 1)
        low, high = (float(end - inference) / looked_at for end in (claimed - last / 2, claimed + last / 2))
        if low > 0 and high < MOST_GAMMA:
            update = {"visual_tokens": tokens, "counted_by": source, "gamma": (low, high)}
            yield found.model_copy(update=update)
