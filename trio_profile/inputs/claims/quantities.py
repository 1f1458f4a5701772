"""The quantities that a paper may print, by name. The unit is part of the name.

`flops_t` is work in 10¹² FLOPs, `prefill_s` a time in seconds, `kv_mb` bytes in MB (or MiB: the audit finds out).
`prefill_speedup` and `kv_ratio` are dense over pruned; of a throughput, pruned over dense. `flops_reduction_pct` is the
saved share of the dense work, and `flops_of_dense_pct` the remaining share.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Literal

Form = Literal["amount", "ratio", "reduction", "share", "plain"]

_UNITS: dict[str, dict[str, Fraction | int]] = {
    "FLOPs": {"MFLOPs": 10**6, "GFLOPs": 10**9, "TFLOPs": 10**12, "PFLOPs": 10**15},
    "MACs": {"MMACs": 10**6, "GMACs": 10**9, "TMACs": 10**12, "PMACs": 10**15},
    "time": {"ms": Fraction(1, 1000), "s": 1, "min": 60, "h": 3600},
    "bytes": {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "energy": {"J": 1, "kJ": 1000, "Wh": 3600},
    "rate": {"/s": 1},
}
"""The units of each kind of amount, and their sizes in FLOPs, MACs, seconds, bytes or joules."""
_WORDS = {"flops": "FLOPs", "macs": "MACs", "kv": "KV cache", "ttft": "TTFT", "tpot": "TPOT"}
"""The words of a base that are not its name."""
_TIMES = ("total", "prefill", "decode", "ttft", "tpot", "forward", "proxy_loss", "backward", "selection", "latency")
_BASES = {"flops": "FLOPs", "macs": "MACs", "kv": "bytes", "memory": "bytes", "energy": "energy", "throughput": "rate"}
_BASES |= dict.fromkeys((*_TIMES, "vision", "generation"), "time")
_SAME = {"inference": "total", "overall": "total", "runtime": "total"}
"""Other names for a base."""
_ENDINGS: dict[str, tuple[Form, str, str]] = {
    "_speedup": ("ratio", "×", "speed-up"),
    "_ratio": ("ratio", "×", "ratio"),
    "_reduction_pct": ("reduction", "%", "saving"),
    "_of_dense_pct": ("share", "%", "of dense"),
}
_PLAIN = {
    "accuracy_kept_pct": "accuracy kept",
    "score": "score",
    "overhead_below_pct": "overhead below",
    "vision_of_ttft_pct": "share of the tower",
    "figure": "figure",
}
"""Quantities that are neither an amount nor a ratio. `overhead_below_pct` is an upper bound of (the method's total −
the total of a method that selects without looking) / the dense total."""


@dataclass(frozen=True)
class Quantity:
    """The meaning of a name.

    base: what is measured.
    form: an amount, a ratio, or a share.
    label, unit: for sentences.
    scale: one printed unit in FLOPs, MACs, seconds, bytes or joules.
    """

    name: str
    base: str
    form: Form
    label: str
    unit: str
    scale: Fraction = Fraction(1)


def _quantities() -> Iterator[Quantity]:
    for base, kind in _BASES.items():
        words = _WORDS.get(base, base.replace("_", " "))
        for unit, scale in _UNITS[kind].items():
            # A name ends with its unit in small letters; that of work leaves the kind out: `flops_t`.
            ending = unit.removesuffix(kind).casefold().replace("/s", "persecond")
            label = f"{words} time" if kind == "time" else words
            yield Quantity(f"{base}_{ending}", base, "amount", label, unit, Fraction(scale))
        for ending, (form, unit, suffix) in _ENDINGS.items():
            for name in (base, *(other for other, same in _SAME.items() if same == base)):
                yield Quantity(f"{name}{ending}", base, form, f"{words} {suffix}", unit)
    for name, label in _PLAIN.items():
        yield Quantity(name, name, "plain", label, "%" if name.endswith("_pct") else "")


QUANTITIES = {quantity.name: quantity for quantity in _quantities()}


def quantity(name: str) -> Quantity:
    """The quantity of this name. Raises ValueError with the nearest names."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    near = get_close_matches(name, QUANTITIES, n=3, cutoff=0.5)
    raise ValueError(f"no known quantity; the nearest are {', '.join(near or ('flops_t', 'prefill_s', 'kv_mb'))}")
