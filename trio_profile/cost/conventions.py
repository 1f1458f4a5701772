"""Which convention prints a published "FLOPs" figure? Every combination of those in use, tried on one prefill.

Pure integers and the digits of a claim; nothing here imports torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from difflib import get_close_matches
from itertools import product
from typing import Literal

from trio_profile.cost import formula as cost_model
from trio_profile.errors import StudyError
from trio_profile.records.schema import Record, Shape

Printed = Literal["rounded", "truncated", "no"]
Step = tuple[str, int]
"""What a step of a walk is called, and how many MACs it adds."""
_MOST_TEXT = 4096
"""Text tokens up to which a figure is looked for: prompts of this field's benchmarks are far shorter."""


@dataclass(frozen=True)
class Prefill:
    """What is counted: the sizes, the visual tokens of each decoder layer, and what is known of the rest.

    vision_macs: tower and projector. overhead_macs: the paper's F_ov. Both for the batch.
    """

    shape: Shape
    visual_by_layer: Sequence[int]
    vision_macs: int = 0
    overhead_macs: int = 0


class Convention(Record):
    """One way to count a prefill: what it takes in, and what it leaves out.

    layers: all, or the first alone. tokens: the visual ones alone, or text too. ffn: matrices; a count with two is the
    paper's f(n), which knows no grouped keys. head: of no row, of one, or of all. overhead: the paper's F_ov with it.
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
        """A short name without blanks: `visual-ffn2-macs`, `all-ffn3-heads-flops`."""
        parts = (
            "layer" if self.layers == "one" else "",
            self.tokens,
            f"ffn{self.ffn}",
            "half" if self.causal == "half" else "",
            {"none": "", "one": "head", "all": "heads"}[self.head],
            "tower" if self.tower else "",
            "overhead" if self.overhead else "",
            self.unit,
        )
        return "-".join(part for part in parts if part)

    @property
    def name(self) -> str:
        """The same in words."""
        parts = (
            "all layers" if self.layers == "all" else "one layer",
            "visual tokens alone" if self.tokens == "visual" else "visual and text tokens",
            "FFN of two matrices" if self.ffn == 2 else "gated FFN",
            "causal attention halved" if self.causal == "half" else "",
            {"none": "", "one": "head for one row", "all": "head for all rows"}[self.head],
            "tower and projector" if self.tower else "",
            "F_ov" if self.overhead else "",
            "MACs" if self.unit == "macs" else "FLOPs (2 × MACs)",
        )
        return ", ".join(part for part in parts if part)

    def value(self, prefill: Prefill) -> int:
        """What this convention prints, in its own unit."""
        return _Reading.of(self, prefill).value(prefill)


PAPER = Convention(overhead=True)
"""TRIO's own figures: F_inf + F_ov."""


class Match(Record):
    """A convention held against a claim.

    printed: how it gives the claim's digits; off: its value over the claim, less one. text_tokens: the least and the
    most text tokens with which it would print the claim; None where it does so as asked, or with no number of them.
    """

    convention: Convention
    code: str
    name: str
    value: int
    printed: Printed
    off: float
    text_tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Reading:
    """A convention opened up, so that one choice after another can be put right."""

    layers: int
    text: int
    ffn: int
    query_width: int
    kv_width: int
    causal: cost_model.Causal
    head: Literal["none", "one", "all"]
    tower: bool
    overhead: bool
    scale: int

    @classmethod
    def of(cls, convention: Convention, prefill: Prefill) -> "_Reading":
        shape = prefill.shape
        # The paper's f(n) knows no grouped keys; a count with the gate takes the model's own widths.
        widths = (shape.hidden, shape.hidden) if convention.ffn == 2 else (shape.query_width, shape.kv_width)
        return cls(
            layers=shape.num_layers if convention.layers == "all" else 1,
            text=shape.text_tokens if convention.tokens == "all" else 0,
            ffn=convention.ffn,
            query_width=widths[0],
            kv_width=widths[1],
            causal=convention.causal,
            head=convention.head,
            tower=convention.tower,
            overhead=convention.overhead,
            scale=2 if convention.unit == "flops" else 1,
        )

    def value(self, prefill: Prefill) -> int:
        shape = prefill.shape
        tokens = [visual + self.text for visual in prefill.visual_by_layer[: self.layers]]
        widths = (shape.hidden, shape.intermediate, self.query_width, self.kv_width, self.ffn, self.causal)
        rows = {"none": 0, "one": 1, "all": tokens[-1]}[self.head]
        one = cost_model.decoder_macs(tokens, *widths) + rows * shape.hidden * shape.vocabulary
        rest = (prefill.vision_macs if self.tower else 0) + (prefill.overhead_macs if self.overhead else 0)
        return self.scale * (shape.batch * one + rest)


def steps(convention: Convention, prefill: Prefill) -> list[Step]:
    """From a convention's figure to the decoder with one row of its head, as they run: one choice put right at a time.

    In MACs, except that the first step leaves a convention's own unit. A choice that was right is no step.
    """
    shape, now = prefill.shape, _Reading.of(convention, prefill)
    walked: list[Step] = []
    head = "head, one row" if now.head == "none" else "head: one row of all"
    for name, right in (
        ("FLOPs are twice the MACs", {"scale": 1}),
        ("overhead that the claim assumes", {"overhead": False}),
        ("the other layers", {"layers": shape.num_layers}),
        ("attention: causal, but run whole", {"causal": "dense"}),
        ("FFN: its gate", {"ffn": shape.ffn_matrices}),
        ("keys and values: grouped", {"kv_width": shape.kv_width}),
        ("queries: another width", {"query_width": shape.query_width}),
        ("text tokens", {"text": shape.text_tokens}),
        (head, {"head": "one"}),
        ("tower and projector, by part below", {"tower": False}),
    ):
        then = replace(now, **right)
        if added := then.value(prefill) - now.value(prefill):
            walked.append((name, added))
        now = then
    return walked


def conventions(*, overhead: bool = False) -> Iterator[Convention]:
    """Every combination in use. overhead: also those that take in F_ov, which a dense prefill has not."""
    for layers, tokens, ffn, causal in product(("all", "one"), ("visual", "all"), (2, 3), ("dense", "half")):
        whole = layers == "all"
        for head, tower, with_overhead, unit in product(
            ("none", "one", "all") if whole else ("none",),
            (False, True) if whole else (False,),
            (False, True) if whole and overhead else (False,),
            ("macs", "flops"),
        ):
            yield Convention(
                layers=layers,
                tokens=tokens,
                ffn=ffn,
                causal=causal,
                head=head,
                tower=tower,
                overhead=with_overhead,
                unit=unit,
            )


def find(code: str) -> Convention:
    """A convention by its code. Raises StudyError with the nearest codes for one that is not in use."""
    known = {one.code: one for one in conventions(overhead=True)}
    if code in known:
        return known[code]
    near = ", ".join(get_close_matches(code, known, n=3, cutoff=0)) or PAPER.code
    raise StudyError(f"convention {code!r} is none of the {len(known)} in use; the nearest are {near}")


def figure(printed: str) -> Decimal:
    """A claim with the digits that it is printed in, e.g. `2.98e12`. Raises StudyError for no positive number."""
    try:
        claimed = Decimal(printed)
    except InvalidOperation as error:
        raise StudyError(f"--claimed {printed!r} is not a number; write it as it is printed, e.g. 2.98e12") from error
    if not claimed.is_finite() or not 1 <= claimed < Decimal("1e24") or len(claimed.as_tuple().digits) > 20:
        raise StudyError(f"--claimed {printed!r}: a count of work lies between 1 and 1e24, in at most 20 digits")
    return claimed


def explain(claimed: Decimal, prefill: Prefill) -> list[Match]:
    """The conventions that print a claim to its last digit.

    Where none does: the nearest one, and after it those that would with another number of text tokens, that which is
    nearest to the number asked for first.
    """
    candidates = list(conventions(overhead=bool(prefill.overhead_macs)))
    matches = [match(claimed, one, prefill) for one in candidates]
    if exact := [found for found in matches if found.printed != "no"]:
        return exact
    nearest = min(matches, key=lambda found: abs(found.off))
    text = prefill.shape.text_tokens
    with_text = [
        found.model_copy(update={"text_tokens": span})
        for found in matches
        if found.convention.tokens == "all" and (span := _text_that_prints(claimed, found.convention, prefill))
    ]
    with_text.sort(key=lambda found: min(abs(bound - text) for bound in found.text_tokens or (0,)))
    return [nearest, *with_text[:3]]


def match(claimed: Decimal, convention: Convention, prefill: Prefill) -> Match:
    """One convention held against a claim."""
    value = convention.value(prefill)
    return Match(
        convention=convention,
        code=convention.code,
        name=convention.name,
        value=value,
        printed=_printed(claimed, value),
        off=float(value / claimed - 1),
    )


def _text_that_prints(claimed: Decimal, convention: Convention, prefill: Prefill) -> tuple[int, int] | None:
    """The least and most text tokens with which a convention prints a claim: its value grows with each of them."""

    def value(text: int) -> int:
        return convention.value(replace(prefill, shape=prefill.shape.model_copy(update={"text_tokens": text})))

    low, high = 0, _MOST_TEXT
    while low < high:
        middle = (low + high) // 2
        if _printed(claimed, value(middle)) != "no" or value(middle) >= claimed:
            high = middle
        else:
            low = middle + 1
    if _printed(claimed, value(low)) == "no":
        return None
    most, beyond = low, low + 1
    while _printed(claimed, value(beyond)) != "no":
        most, beyond = beyond, 2 * beyond
    while beyond - most > 1:
        middle = (most + beyond) // 2
        most, beyond = (middle, beyond) if _printed(claimed, value(middle)) != "no" else (most, middle)
    return low, most


def _printed(claimed: Decimal, value: int) -> Printed:
    """How the value, in as many digits as the claim has, becomes the claim."""
    digits = len(claimed.as_tuple().digits)
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    if exact.quantize(last, ROUND_HALF_UP) == claimed:
        return "rounded"
    return "truncated" if exact.quantize(last, ROUND_DOWN) == claimed else "no"
