"""The only place where numbers become text."""

from collections.abc import Sequence
from math import floor, log10

_SI = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"


def count(value: float, unit: str = "") -> str:
    """A large count with an SI prefix and four digits: 2985934061568 → `2.986 T`."""
    for size, prefix in _SI:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}".rstrip()


def size(num_bytes: float) -> str:
    """Bytes with a binary prefix: 333447168 → `318 MiB`."""
    for unit_size, unit in _BINARY:
        if abs(num_bytes) >= unit_size:
            return f"{num_bytes / unit_size:.4g} {unit}"
    return f"{num_bytes:.0f} B"


def exact(value: int) -> str:
    """A whole number with every digit, in groups of three that do not break: 2985934061568 → `2 985 934 061 568`."""
    return f"{value:,}".replace(",", _NARROW_SPACE)


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage: 0.111 → `11.1 %`."""
    return f"{100 * share:.{digits}f} %"


def percent_within(share: float, bounds: Sequence[float]) -> str:
    """A share and its interval, with the digits that the interval supports: `61 % [55, 66]`; exact ones stand alone."""
    if bounds[0] == share == bounds[1]:
        return percent(share)
    digits = _digits([100 * bound for bound in bounds], least=0, most=1)
    return f"{percent(share, digits)} [{100 * bounds[0]:.{digits}f}, {100 * bounds[1]:.{digits}f}]"


def points_within(difference: float, bounds: Sequence[float]) -> str:
    """A difference of shares and its interval, in points, signed: −0.03 → `−3.0 [−5.1, −0.9]`."""
    value, low, high = (f"{100 * share:+.1f}".replace("-", "−") for share in (difference, *bounds))
    return f"{value} [{low}, {high}]"


def plain(value: float) -> str:
    """A value as one would write it down to go on with it, six digits at the most: `2.75489`, `0.5`, `2312`."""
    return f"{value:.6g}"


def tiny(share: float) -> str:
    """A relative difference by its size: 2.886e-07 → `2.9e-07`."""
    return f"{share:.1e}"


def factor(value: float) -> str:
    """A plain factor such as γ: 0.1834 → `0.183`."""
    return _significant(value, 3)


def correlation(value: float, bounds: Sequence[float]) -> str:
    """A correlation and its interval, two decimals: `−0.31 [−0.42, −0.18]`."""
    return f"{value:.2f} [{bounds[0]:.2f}, {bounds[1]:.2f}]".replace("-", "−")


def milliseconds(value: float) -> str:
    """A duration in milliseconds with three significant digits."""
    return f"{_significant(value, 3)} ms"


def joules(value: float) -> str:
    """Energy in joules with three significant digits."""
    return f"{_significant(value, 3)} J"


def duration(seconds: float) -> str:
    """A duration for people: `0.5 s`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def times(ratio: float, interval: Sequence[float] | None = None) -> str:
    """A speed-up with the digits its interval supports: 1.2345 in [1.20, 1.27] → `1.23×`."""
    return f"{ratio:.{_ratio_digits(interval)}f}×"


def times_within(ratio: float, bounds: Sequence[float]) -> str:
    """A speed-up and its interval: `1.23× [1.20, 1.27]`."""
    return f"{times(ratio, bounds)} {interval(bounds)}"


def interval(bounds: Sequence[float], suffix: str = "") -> str:
    """A speed-up's interval with the digits its width supports: `[1.20, 1.27]`."""
    digits = _ratio_digits(bounds)
    return f"[{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]{suffix}"


def _ratio_digits(bounds: Sequence[float] | None) -> int:
    """As many decimals as the width supports, and more where rounding would move an end onto 1."""
    if bounds is None:
        return 2
    digits = _digits(bounds, least=1, most=4)
    while digits < 4 and any(bound != 1 and round(bound, digits) == 1 for bound in bounds):
        digits += 1
    return digits


def _digits(bounds: Sequence[float], least: int, most: int) -> int:
    """The fewest decimals at which the interval is two units of the last one wide, between `least` and `most`."""
    width = bounds[1] - bounds[0]
    digits = least
    while digits < most and width < 2 * 10**-digits:
        digits += 1
    return digits


def _significant(value: float, digits: int) -> str:
    """That many significant digits, trailing zeros kept so that a column shows one precision: `24.0`, `1230`."""
    if value == 0:
        return f"{0:.{digits - 1}f}"
    rounded = float(f"{value:.{digits}g}")
    decimals = digits - 1 - floor(log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"
