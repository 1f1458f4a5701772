"""Text for numbers. No other module formats a number.

Each function shows its result in backquotes. `bounds` are the lower and the upper end of a 95 % interval.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import floor, isclose, log10

_SI = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"


def count(value: float, unit: str = "") -> str:
    """A count with four digits and an SI prefix: 2985934061568 → `2.986 T`."""
    for size, prefix in _SI:
        if abs(value) >= size:
            return _minus(f"{value / size:.4g} {prefix}{unit}")
    return _minus(f"{value:.4g} {unit}".rstrip())


def count_within(value: float, bounds: Sequence[float]) -> str:
    """A mean count with its interval: `57.5 [54.0, 61.2]`. A wide interval gets fewer digits."""
    digits = _digits(bounds, least=0, most=1)
    return f"{value:.{digits}f} [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"


def span(low: int, high: int) -> str:
    """A range of whole numbers: `8 to 32`. A range of one number is the number."""
    return exact(low) if low == high else f"{exact(low)} to {exact(high)}"


def size(num_bytes: float) -> str:
    """Bytes with a binary prefix: 333447168 → `318 MiB`."""
    for unit_size, unit in _BINARY:
        if abs(num_bytes) >= unit_size:
            return f"{num_bytes / unit_size:.4g} {unit}"
    return f"{num_bytes:.0f} B"


def exact(value: int) -> str:
    """A whole number with all digits, in groups of three: 2985934061568 → `2 985 934 061 568`."""
    return _minus(f"{value:,}").replace(",", _NARROW_SPACE)


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage: 0.111 → `11.1 %`."""
    return _minus(f"{100 * share:.{digits}f} %")


def percent_of_all(share: float, digits: int = 1) -> str:
    """A share between 0 and 1: 0.9 → `90.0 %`. Only all is `100 %`, and only none is `0 %`; others get more digits."""
    return f"{_percentage(share, _share_digits([share], digits))} %"


def percent_within(share: float, bounds: Sequence[float]) -> str:
    """A share with its interval: `61 % [55, 66]`. A wide interval gets fewer digits. An exact share has no interval.

    Only all is `100 %`, and only none is `0 %`: 1 in [0.981, 1] → `100 % [98.1, 100]`.
    """
    if bounds[0] == share == bounds[1]:
        return percent_of_all(share)
    digits = _share_digits([share, *bounds], _digits([100 * bound for bound in bounds], least=0, most=1))
    value, low, high = (_percentage(part, digits) for part in (share, *bounds))
    return f"{value} % [{low}, {high}]"


def points_within(difference: float, bounds: Sequence[float]) -> str:
    """A difference of two shares in percentage points, with its sign and its interval: −0.03 → `−3.0 [−5.1, −0.9]`."""
    return f"{_signed_points(difference)} {points_interval(bounds)}"


def points(difference: float, bounds: Sequence[float]) -> str:
    """A difference of two shares in words, with its interval: −0.58 → `58.0 points less [−64.1, −51.2]`."""
    if round(100 * difference, 1) == 0:
        return f"no difference {points_interval(bounds)}"
    return f"{abs(100 * difference):.1f} points {'more' if difference > 0 else 'less'} {points_interval(bounds)}"


def points_lost(difference: float, bounds: Sequence[float] = ()) -> str:
    """The loss against dense, in percentage points, with its interval if it has one: −0.14 → `14.0 [8.9, 18.8]`."""
    # Adding 0 makes −0 to 0.
    value, *ends = (_minus(f"{round(-100 * part, 1) + 0.0:.1f}") for part in (difference, *reversed(bounds)))
    return f"{value} [{', '.join(ends)}]" if ends else value


def points_interval(bounds: Sequence[float]) -> str:
    """The interval of a difference of two shares, in percentage points: `[−42.7, −28.6]`."""
    return f"[{', '.join(map(_signed_points, bounds))}]"


def nats_within(value: float, bounds: Sequence[float]) -> str:
    """A divergence with its interval: `0.123 nats [0.110, 0.140]`."""
    return f"{power(value)} nats [{power(bounds[0])}, {power(bounds[1])}]"


def score(value: float) -> str:
    """A score with one decimal, as papers print it: `94.9`."""
    return f"{value:.1f}"


def plain(value: float) -> str:
    """A value with at most six digits and no trailing zeros: `2.75489`, `0.5`, `2312`."""
    return f"{value:.6g}"


def factor(value: float) -> str:
    """A plain factor such as γ: 0.1834 → `0.183`, 2.67e-8 → `2.7 × 10⁻⁸`."""
    return _significant(value, 3) if value == 0 or abs(value) >= 1e-3 else _power(value, 2)


def threshold(value: float) -> str:
    """The threshold τ with two decimals, as the paper prints it: 0.7 → `0.70`."""
    return f"{value:.2f}"


def correlation(value: float, bounds: Sequence[float] | None = None) -> str:
    """A correlation with its interval, if it has one: `−0.31 [−0.42, −0.18]`."""
    text = f"{value:.2f}" if bounds is None else f"{value:.2f} [{bounds[0]:.2f}, {bounds[1]:.2f}]"
    return text.replace("-", "−")


def milliseconds(value: float) -> str:
    """A duration in milliseconds with three digits: `24.0 ms`."""
    return f"{_significant(value, 3)} ms"


def milliseconds_between(low: float, high: float) -> str:
    """A range of durations in milliseconds: `41.5 to 49.0 ms`."""
    return f"{_significant(low, 3)} to {milliseconds(high)}"


def times_between(low: float, high: float) -> str:
    """A range of speed-ups, never narrower than it is: `1.45 to 2.08×`."""
    return f"{at_least(low)} to {at_most(high)}×"


def per_second(value: float) -> str:
    """A rate with three digits: `6.42 /s`."""
    return f"{_significant(value, 3)} /s"


def load(value: float) -> str:
    """A concurrency or an arrival rate: 6.4231 → `6.42`, 32 → `32`. Whole numbers from 1000 on have all digits."""
    return f"{value:.0f}" if value >= 999.5 else f"{value:.3g}"


def load_within(value: float, bounds: Sequence[float]) -> str:
    """A break-even load with its interval: `6.42 [5.9, 7.03]`."""
    return f"{load(value)} [{', '.join(map(load, bounds))}]"


def joules(value: float) -> str:
    """Energy in joules with three digits: `1.25 J`."""
    return f"{_significant(value, 3)} J"


def short(value: float) -> str:
    """A value of any size with three digits: `0.0123`, `1.23 × 10⁻⁷`, `1.23 × 10⁹`."""
    text = f"{value:.3g}"
    return _power(value, 3) if "e" in text else _minus(text)


def power(value: float) -> str:
    """A value that may be very small: 0.1834 → `0.183`, 0.000213 → `2.1 × 10⁻⁴`, 0 → `0`."""
    return "0" if value == 0 else factor(value)


def change(base: int, new: int) -> str:
    """A whole number and its change: 4096, 4097 → `4 096 + 1`. A large number is rounded; the change is exact."""
    before = exact(base) if abs(base) < 10**6 else count(base)
    if new == base:
        return before
    return f"{before} {'+' if new > base else '−'} {exact(abs(new - base))}"


def task_score(value: float, largest: float | None = None) -> str:
    """A benchmark's score: `0.8312` if it is below 10, otherwise `1510.7`.

    largest: another score of the benchmark. Both get as many decimals.
    """
    return f"{value:.{_score_digits(value if largest is None else largest)}f}".replace("-", "−")


def task_score_difference(difference: float, score: float, bounds: Sequence[float] | None = None) -> str:
    """A difference of two scores with its sign, and its interval if it has one: `−0.0123 [−0.0301, +0.0055]`.

    score: one of the two. The difference gets as many decimals.
    """
    digits = _score_digits(score)
    value, *ends = (f"{part:+.{digits}f}".replace("-", "−") for part in (difference, *(bounds or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def number_of(count: int, noun: str) -> str:
    """A count with its noun: `1 cell`, `3 cells`."""
    return f"{exact(count)} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes and hours: `0.5 s`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(when: datetime) -> str:
    """A date and a time in UTC: `2026-11-22 09:30 UTC`."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def times(ratio: float, interval: Sequence[float] | None = None, limit: float = 1) -> str:
    """A speed-up: 1.2345 in [1.20, 1.27] → `1.23×`. A wide interval gets fewer digits."""
    return f"{ratio:.{_ratio_digits(interval, limit)}f}×"


def times_within(ratio: float, bounds: Sequence[float], limit: float = 1) -> str:
    """A speed-up with its interval: `1.23× [1.20, 1.27]`. limit: with which the interval is compared."""
    return f"{times(ratio, bounds, limit)} {interval(bounds, limit)}"


def at_least(value: float) -> str:
    """A lower bound in three digits, never rounded up: `1.43` for 1.4399."""
    return _bound(value, ROUND_FLOOR)


def at_most(value: float) -> str:
    """An upper bound in three digits, never rounded down: `12.4` for 12.31."""
    return _bound(value, ROUND_CEILING)


def _bound(value: float, rounding: str) -> str:
    digits = Decimal(1).scaleb(-2 if abs(value) < 10 else -1 if abs(value) < 100 else 0)
    return plain(float(Decimal(value).quantize(digits, rounding)))


def interval(bounds: Sequence[float], limit: float = 1) -> str:
    """The interval of a speed-up: `[1.20, 1.27]`. A wide interval gets fewer digits."""
    digits = _ratio_digits(bounds, limit)
    return f"[{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"


def _ratio_digits(bounds: Sequence[float] | None, limit: float) -> int:
    """The number of decimals of a speed-up. Only an end of the interval that is 1, or the limit, is rounded to it."""
    if bounds is None:
        return 2
    digits = _digits(bounds, least=1, most=4)
    while digits < 4 and any(
        bound != mark and round(bound, digits) == round(mark, digits) for bound in bounds for mark in (1, limit)
    ):
        digits += 1
    return digits


def _digits(bounds: Sequence[float], least: int, most: int) -> int:
    """The fewest decimals, from `least` to `most`, so that the interval spans two units of the last decimal."""
    width = bounds[1] - bounds[0]
    digits = least
    while digits < most and width < 2 * 10**-digits:
        digits += 1
    return digits


def _share_digits(shares: Sequence[float], least: int) -> int:
    """The number of decimals, from `least` to 6, so that only all is rounded to 100 % and only none to 0 %."""
    digits = least
    between = [100 * share for share in shares if not _is_whole(share)]
    while digits < 6 and any(round(value, digits) in (0, 100) for value in between):
        digits += 1
    return digits


def _percentage(share: float, digits: int) -> str:
    """The number of a percentage. All and none have no decimals."""
    return _minus(f"{100 * share:.{0 if _is_whole(share) else digits}f}")


def _is_whole(share: float) -> bool:
    """Whether a share is 0 or 1, apart from the rounding of floating-point numbers."""
    return isclose(share, 0, abs_tol=1e-12) or isclose(share, 1, abs_tol=1e-12)


def _significant(value: float, digits: int) -> str:
    """A value with this number of significant digits: `24.0`, `1230`. Trailing zeros stay, so that columns align."""
    if value == 0:
        return f"{0:.{digits - 1}f}"
    rounded = float(f"{value:.{digits}g}")
    decimals = digits - 1 - floor(log10(abs(rounded)))
    return _minus(f"{rounded:.{max(decimals, 0)}f}")


def _power(value: float, digits: int) -> str:
    """A value as a power of ten: 2.886e-07 → `2.9 × 10⁻⁷`."""
    factor, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return _minus(f"{factor} × 10{str(int(exponent)).translate(_RAISED)}")


def _minus(text: str) -> str:
    """The text with a minus sign instead of a leading hyphen."""
    return f"−{text[1:]}" if text.startswith("-") else text


def _signed_points(share: float) -> str:
    """Percentage points with their sign: `+0.4`, `−3.0`; what rounds to nothing is `+0.0`."""
    return _minus(f"{round(100 * share, 1) + 0.0:+.1f}")


def _score_digits(value: float) -> int:
    """The number of decimals of a score. Small scores are shares; large ones are points or percentages."""
    return 4 if abs(value) < 10 else 1
