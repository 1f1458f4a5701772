"""Which convention gives a published "FLOPs" figure? All conventions in use are tried on one prefill.

A convention says what is counted: which layers, which tokens, which parts of the model, MACs or FLOPs. The arithmetic
is on whole numbers and on the digits of the claim. Nothing here imports torch.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from trio_profile.cost import formula as cost_model
from trio_profile.cost.printed import How, Printed
from trio_profile.errors import StudyError
from trio_profile.records.schema import Record, Shape

Step = tuple[str, int]
"""One step from a claim to a count: its name, and the MACs that it adds."""
_MOST_TEXT = 4096
"""The largest number of text tokens that is tried. Prompts of this field's benchmarks are far shorter."""
_BEYOND = 10**12
"""With so many text tokens no convention gives a claim: figures of work end at 1e24."""
MOST_MATCHES = 4
"""How many conventions with another number of visual tokens are named, the simplest first."""
MOST_GAMMA = 10
"""The largest γ that is named. The paper's own procedure costs about two forwards."""


@dataclass(frozen=True)
class Prefill:
    """The prefill whose work is counted.

    shape: the model's widths, and what enters the decoder.
    visual_by_layer: visual tokens that each decoder layer runs on.
    vision_macs: work of the vision tower and the projector, for the batch.
    overhead_macs: the paper's F_ov, for the batch.
    """

    shape: Shape
    visual_by_layer: Sequence[int]
    vision_macs: int = 0
    overhead_macs: int = 0


_WORDS: dict[str, dict[Any, tuple[str, str]]] = {
    "layers": {"all": ("", "all layers"), "one": ("layer", "one layer")},
    "tokens": {"visual": ("visual", "visual tokens alone"), "all": ("all", "visual and text tokens")},
    "ffn": {2: ("ffn2", "FFN of two matrices"), 3: ("ffn3", "gated FFN")},
    "causal": {"dense": ("", ""), "half": ("half", "causal attention halved")},
    "head": {"none": ("", ""), "one": ("head", "head for one row"), "all": ("heads", "head for all rows")},
    "tower": {False: ("", ""), True: ("tower", "tower and projector")},
    "overhead": {False: ("", ""), True: ("overhead", "F_ov")},
    "unit": {"macs": ("macs", "MACs"), "flops": ("flops", "FLOPs (2 × MACs)")},
}
"""The fields of a convention, each with its values, the simplest first: a value's part of the code, and its words."""


class Convention(Record):
    """One way to count a prefill.

    layers: all decoder layers, or only the first.
    tokens: only the visual tokens, or the text tokens too.
    ffn: number of FFN matrices. With 2 it is the paper's f(n), which has no grouped keys.
    causal: whether causal attention is counted whole or halved.
    head: the head for no row, for one row, or for all rows.
    tower: whether the vision tower and the projector are included.
    overhead: whether the paper's F_ov is included.
    unit: MACs, or FLOPs (2 × MACs).
    """

    layers: Literal["all", "one"] = "all"
    tokens: Literal["visual", "all"] = "visual"
    ffn: Literal[2, 3] = 2
    causal: cost_model.Causal = "dense"
    head: Literal["none", "one", "all"] = "none"
    tower: bool = False
    overhead: bool = False
    unit: Literal["macs", "flops"] = "macs"

    @property
    def code(self) -> str:
        """A short name without spaces: `visual-ffn2-macs`, `all-ffn3-heads-flops`."""
        return "-".join(self._parts(0))

    @property
    def name(self) -> str:
        """The convention in words."""
        return ", ".join(self._parts(1))

    def _parts(self, index: int) -> list[str]:
        parts = (values[getattr(self, field)][index] for field, values in _WORDS.items())
        return [part for part in parts if part]

    def value(self, prefill: Prefill) -> int:
        """The work of a prefill by this convention, in its own unit."""
        return _work(self, _widths(self, prefill.shape), prefill)


PAPER = Convention(overhead=True)
"""The convention of TRIO's own figures: F_inf + F_ov."""


class Match(Record):
    """One convention compared with a claim.

    value: the work by this convention, in its unit.
    printed: whether the value becomes the claim by rounding, by truncation, or not at all.
    off: value / claim − 1.
    text_tokens: the smallest and the largest number of text tokens with which the convention would give the claim.
        None if it gives the claim with the number that was asked for, or with no number.
    visual_tokens: the number of visual tokens that this match is about; None for the prefill's own.
    counted_by: who counts them so, as the end of a sentence.
    gamma: the least and the largest γ with which the paper's formula gives the claim; None for a match without γ.
    """

    convention: Convention
    code: str
    name: str
    value: int
    printed: How
    off: float
    text_tokens: tuple[int, int] | None = None
    visual_tokens: int | None = None
    counted_by: str = ""
    gamma: tuple[float, float] | None = None


def _widths(convention: Convention, shape: Shape) -> Shape:
    """A model's widths and text tokens as a convention takes them."""
    changes: dict[str, int] = {"ffn_matrices": convention.ffn}
    if convention.ffn == 2:  # the paper's f(n) has no grouped keys; a count with the gate takes the real widths
        changes |= {"query_width": shape.hidden, "kv_width": shape.hidden}
    if convention.tokens == "visual":
        changes["text_tokens"] = 0
    return shape.model_copy(update=changes)


def _work(convention: Convention, widths: Shape, prefill: Prefill) -> int:
    """The work of a prefill with these widths and text tokens, in the convention's unit."""
    layers = widths.num_layers if convention.layers == "all" else 1
    tokens = [visual + widths.text_tokens for visual in prefill.visual_by_layer[:layers]]
    rows = {"none": 0, "one": 1, "all": tokens[-1]}[convention.head]
    decoder = cost_model.decoder_macs(tokens, widths, convention.causal) + rows * widths.hidden * widths.vocabulary
    tower = prefill.vision_macs if convention.tower else 0
    overhead = prefill.overhead_macs if convention.overhead else 0
    return (2 if convention.unit == "flops" else 1) * (widths.batch * decoder + tower + overhead)


def steps(convention: Convention, prefill: Prefill) -> list[Step]:
    """The steps from a convention's figure to the work of the decoder and one row of its head, as they run.

    Each step corrects one part of the convention, or one width that it takes. A part that needs no correction gives no
    step. All steps are in MACs; the first one leaves the convention's own unit.
    """
    shape, widths = prefill.shape, _widths(convention, prefill.shape)
    head = "head, one row" if convention.head == "none" else "head: one row of all"
    corrections: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
        ("FLOPs are twice the MACs", {"unit": "macs"}, ()),
        ("overhead that the claim assumes", {"overhead": False}, ()),
        ("the other layers", {"layers": "all"}, ()),
        ("attention: causal, but run whole", {"causal": "dense"}, ()),
        ("FFN: its gate", {}, ("ffn_matrices",)),
        ("keys and values: grouped", {}, ("kv_width",)),
        ("queries: another width", {}, ("query_width",)),
        ("text tokens", {}, ("text_tokens",)),
        (head, {"head": "one"}, ()),
        ("tower and projector, by part below", {"tower": False}, ()),
    )
    corrected: list[Step] = []
    before = _work(convention, widths, prefill)
    for name, part, real in corrections:
        convention = convention.model_copy(update=part)
        widths = widths.model_copy(update={width: getattr(shape, width) for width in real})
        after = _work(convention, widths, prefill)
        if after != before:
            corrected.append((name, after - before))
        before = after
    return corrected


def conventions(*, overhead: bool = False) -> Iterator[Convention]:
    """All conventions in use, the simplest first. The head, the tower and F_ov are not of one layer alone.

    overhead: also those that include F_ov. A dense prefill has no F_ov.
    """
    for values in product(*_WORDS.values()):
        fields = dict(zip(_WORDS, values, strict=True))
        beside_the_layers = fields["head"] != "none" or fields["tower"] or fields["overhead"]
        if not (fields["layers"] == "one" and beside_the_layers) and (overhead or not fields["overhead"]):
            yield Convention(**fields)


def find(code: str) -> Convention:
    """The convention with this code. Raises StudyError with the nearest codes if there is none."""
    known = {convention.code: convention for convention in conventions(overhead=True)}
    if code in known:
        return known[code]
    near = ", ".join(get_close_matches(code, known, n=3, cutoff=0)) or PAPER.code
    raise StudyError(f"convention {code!r} is none of the {len(known)} in use; the nearest are {near}")


def figure(text: str) -> Printed:
    """A claim with all its printed digits, e.g. `2.98e12`. Raises StudyError if it is no number of operations."""
    try:
        claimed = Printed.of(text)
    except ValueError as error:
        raise StudyError(f"--claimed {error}; write it as it is printed, e.g. 2.98e12") from error
    if not 1 <= claimed.value < 10**24:
        raise StudyError(f"--claimed {text}: a count of work lies between 1 and 1e24")
    return claimed


def explain(claimed: Printed, prefill: Prefill) -> list[Match]:
    """The conventions that give a claim to its last digit.

    If none does: the convention whose value is nearest, followed by up to three that would give the claim with another
    number of text tokens. The number nearest to the prefill's own comes first.
    """
    candidates = list(conventions(overhead=bool(prefill.overhead_macs)))
    matches = [match(claimed, convention, prefill) for convention in candidates]
    if exact := [tried for tried in matches if tried.printed != "no"]:
        return exact
    nearest = min(matches, key=lambda tried: abs(tried.off))
    text = prefill.shape.text_tokens
    with_text = [
        tried.model_copy(update={"text_tokens": span})
        for tried in matches
        if tried.convention.tokens == "all" and (span := _text_that_prints(claimed, tried.convention, prefill))
    ]
    with_text.sort(key=lambda tried: min(abs(bound - text) for bound in tried.text_tokens or (0,)))
    return [nearest, *with_text[:3]]


def match(claimed: Printed, convention: Convention, prefill: Prefill) -> Match:
    """One convention compared with a claim."""
    value = convention.value(prefill)
    return Match(
        convention=convention,
        code=convention.code,
        name=convention.name,
        value=value,
        printed=claimed.how(Fraction(value)),
        off=float(value / claimed.value - 1),
    )


def _text_that_prints(claimed: Printed, convention: Convention, prefill: Prefill) -> tuple[int, int] | None:
    """The smallest and the largest number of text tokens with which a convention gives a claim; None if none does.

    The value grows with every text token, so that a binary search finds both.
    """

    def value(text: int) -> int:
        return convention.value(replace(prefill, shape=prefill.shape.model_copy(update={"text_tokens": text})))

    def prints(text: int) -> bool:
        return claimed.how(Fraction(value(text))) != "no"

    least = bisect_left(range(_MOST_TEXT), True, key=lambda text: prints(text) or value(text) >= claimed.value)
    if not prints(least):
        return None
    return least, least - 1 + bisect_left(range(least, _BEYOND), True, key=lambda text: not prints(text))


# --- another number of visual tokens, or another γ -----------------------------------------------------------------
# One picture is counted in several ways: with line ends or without, as its base crop alone, or as a dataset's average.


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
    begins as `explain` says. For a pruned prefill it ends with the γ that the paper's formula would need.

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
