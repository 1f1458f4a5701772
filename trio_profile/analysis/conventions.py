"""Which convention prints a published "FLOPs" figure? Every combination of those in use, tried on one model and input.

Pure integers and the digits of a claim; nothing here imports torch.
"""

from collections.abc import Iterator
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from itertools import product
from typing import Literal

from trio_profile import cost_model
from trio_profile.errors import StudyError
from trio_profile.schema import Record, Shape

Printed = Literal["rounded", "truncated", "no"]


class Convention(Record):
    """One way to count a dense prefill: its name, and what it gives for this model and input."""

    name: str
    value: int


class Match(Record):
    """A convention held against a claim. printed: how it gives the claim's digits; off: value over claim, less one."""

    convention: Convention
    printed: Printed
    off: float


def conventions(shape: Shape, vision_macs: int) -> Iterator[Convention]:
    """Every combination of tokens, layers, FFN, attention, head, tower and unit. vision_macs: tower and projector."""
    d, m = shape.hidden, shape.intermediate
    spans = {
        "visual tokens alone": shape.visual_tokens,
        "visual and text tokens": shape.visual_tokens + shape.text_tokens,
    }
    for (span, n), layers, ffn, causal in product(spans.items(), (shape.num_layers, 1), (2, 3), ("dense", "half")):
        # The paper's f(n) knows no grouped keys; a count with the gate takes the model's own widths.
        widths = (d, d) if ffn == 2 else (shape.query_width, shape.kv_width)
        body = layers * cost_model.layer_macs(n, d, m, *widths, ffn, causal)
        heads = (
            {"no head": 0}
            if layers == 1
            else {
                "no head": 0,
                "head for one row": d * shape.vocabulary,
                "head for all rows": n * d * shape.vocabulary,
            }
        )
        towers = {"no tower": 0} if layers == 1 else {"no tower": 0, "tower and projector": vision_macs}
        for (head, head_macs), (tower, tower_macs), (unit, scale) in product(
            heads.items(), towers.items(), {"MACs": 1, "FLOPs (2 × MACs)": 2}.items()
        ):
            parts = (
                f"{layers} layers" if layers > 1 else "one layer",
                span,
                "FFN of two matrices" if ffn == 2 else "gated FFN",
                *(("causal attention halved",) if causal == "half" else ()),
                *((head,) if head_macs else ()),
                *((tower,) if tower_macs else ()),
                unit,
            )
            yield Convention(name=", ".join(parts), value=scale * shape.batch * (body + head_macs + tower_macs))


def figure(printed: str) -> Decimal:
    """A claim with the digits that it is printed in, e.g. `2.98e12`. Raises StudyError for no positive number."""
    try:
        claimed = Decimal(printed)
    except InvalidOperation as error:
        raise StudyError(f"--claimed {printed!r} is not a number; write it as it is printed, e.g. 2.98e12") from error
    if not claimed.is_finite() or claimed <= 0:
        raise StudyError(f"--claimed {printed!r}: a count of work is positive")
    return claimed


def explain(claimed: Decimal, shape: Shape, vision_macs: int) -> list[Match]:
    """The conventions that print a claim to its last digit; where none does, the nearest one."""
    matches = [
        Match(convention=one, printed=_printed(claimed, one.value), off=float(one.value / claimed - 1))
        for one in conventions(shape, vision_macs)
    ]
    exact = [match for match in matches if match.printed != "no"]
    return exact or [min(matches, key=lambda match: abs(match.off))]


def _printed(claimed: Decimal, value: int) -> Printed:
    """How the value, in as many digits as the claim has, becomes the claim."""
    digits = len(claimed.as_tuple().digits)
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    if exact.quantize(last, ROUND_HALF_UP) == claimed:
        return "rounded"
    return "truncated" if exact.quantize(last, ROUND_DOWN) == claimed else "no"
