"""The quantities that a paper may print, by name. The unit is part of the name.

`flops_t` is work in 10¹² FLOPs, `prefill_s` a time in seconds, `kv_mb` bytes in MB (or MiB: the audit finds out).
`prefill_speedup` and `kv_ratio` are dense over pruned; of a throughput, pruned over dense. `flops_reduction_pct` is the
saved share of the dense work, and `flops_of_dense_pct` the remaining share.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from typing import Literal

Form = Literal["amount", "ratio", "reduction", "share", "plain"]

_UNITS: dict[str, dict[str, Fraction]] = {
    "work": {"m": Fraction(10**6), "g": Fraction(10**9), "t": Fraction(10**12), "p": Fraction(10**15)},
    "time": {"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)},
    "bytes": {"kb": Fraction(10**3), "mb": Fraction(10**6), "gb": Fraction(10**9)}
    | {"kib": Fraction(2**10), "mib": Fraction(2**20), "gib": Fraction(2**30)},
    "energy": {"j": Fraction(1), "kj": Fraction(1000), "wh": Fraction(3600)},
    "rate": {"persecond": Fraction(1)},
}
_BASES = {
    "flops": "work",
    "macs": "work",
    **dict.fromkeys(("total", "prefill", "decode", "ttft", "tpot", "forward", "proxy_loss", "backward"), "time"),
    **dict.fromkeys(("selection", "latency", "vision", "generation"), "time"),
    "kv": "bytes",
    "memory": "bytes",
    "energy": "energy",
    "throughput": "rate",
}
_ENDINGS: dict[str, tuple[Form, str]] = {
    "_speedup": ("ratio", "×"),
    "_ratio": ("ratio", "×"),
    "_reduction_pct": ("reduction", "%"),
    "_of_dense_pct": ("share", "%"),
}
_SAME = {"inference": "total", "overall": "total", "runtime": "total"}
"""Other names for a base."""
_MOST: dict[Form, int] = {"amount": 10**24, "ratio": 10**6, "reduction": 100, "share": 10_000, "plain": 10**6}
"""The largest value that each form can have; of an amount in FLOPs, MACs, seconds, bytes or joules."""
PLAIN = ("accuracy_kept_pct", "score", "overhead_below_pct", "vision_of_ttft_pct", "figure")
"""Quantities that are neither an amount nor a ratio. `overhead_below_pct` is an upper bound of (the method's total −
the total of a method that selects without looking) / the dense total."""


@dataclass(frozen=True)
class Quantity:
    """The meaning of a name.

    base: what is measured.
    form: an amount, a ratio, or a share.
    scale: one printed unit in FLOPs, MACs, seconds, bytes or joules.
    unit: for sentences.
    """

    name: str
    base: str
    form: Form
    scale: Fraction = Fraction(1)
    unit: str = ""


@cache
def quantity(name: str) -> Quantity:
    """The quantity of this name. Raises ValueError with its possible units, or with the nearest names."""
    if name in PLAIN:
        return Quantity(name, name, "plain", unit="%" if name.endswith("_pct") else "")
    for ending, (form, unit) in _ENDINGS.items():
        if name.endswith(ending):
            base = name.removesuffix(ending)
            base = _SAME.get(base, base)
            if base in _BASES:
                return Quantity(name, base, form, unit=unit)
    base, _, unit = name.rpartition("_")
    if base in _BASES:
        units = _UNITS[_BASES[base]]
        if unit not in units:
            raise ValueError(f"{unit!r} is no unit of {base}; write one of {', '.join(f'{base}_{u}' for u in units)}")
        return Quantity(name, base, "amount", units[unit], _unit_of(base, unit))
    near = get_close_matches(name, _names(), n=3, cutoff=0.5)
    known = ", ".join(near or ("flops_t", "prefill_s", "kv_mb", "prefill_speedup"))
    raise ValueError(f"no known quantity; the nearest are {known}")


def check(name: str, text: str) -> None:
    """Raise ValueError if there is no quantity of this name, or if it cannot have this printed value."""
    meant, number = quantity(name), Fraction(text)
    if number * meant.scale > _MOST[meant.form]:
        raise ValueError(f"{text} {meant.unit}".rstrip() + " cannot be")


def _names() -> list[str]:
    amounts = [f"{base}_{unit}" for base, kind in _BASES.items() for unit in _UNITS[kind]]
    ratios = [f"{base}{ending}" for base in _BASES for ending in _ENDINGS]
    return [*amounts, *ratios, *PLAIN]


def _unit_of(base: str, unit: str) -> str:
    """The unit of an amount, for sentences."""
    if _BASES[base] == "work":
        return f"{unit.upper()}{'MAC' if base == 'macs' else 'FLOP'}s"
    if unit == "persecond":
        return "/s"
    known = ("kB", "MB", "GB", "KiB", "MiB", "GiB", "J", "kJ", "Wh")
    return next((name for name in known if name.casefold() == unit), unit)
