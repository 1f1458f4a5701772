"""Compare prefill times with the peak of the named device: nothing can be faster.

The work is the least that the row can mean: only the decoder's products, half of the attention as in a causal kernel,
and as many visual tokens as the cache says. Peaks are the maker's dense figures for 16-bit tensor cores, at boost clock
and with the faster accumulation. So a time below this is impossible.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from fractions import Fraction

from trio_profile.cost.formula import layer_macs
from trio_profile.errors import ClaimsError, StudyError
from trio_profile.inputs.claims.facts import Facts, Figure, Line, shape
from trio_profile.kinds.audit.document import Finding, Subject, number
from trio_profile.text import listed

# A time this many times above or below the prediction is doubted.
_FAR = 2.0

_DATA_CENTRE = {"v100": 130, "a100": 312, "a800": 312, "h20": 148, "h800": 990, "h100": 990, "h200": 990, "b200": 2250}
_SMALLER = {"a40": 150, "a6000": 155, "a10": 125, "l40s": 367, "l40": 182}
_DESKTOP = {"rtx 3090": 143, "rtx 4090": 331, "rtx 5090": 420}
PEAK_TFLOPS = _DATA_CENTRE | _SMALLER | _DESKTOP
"""TFLOP/s by device, from the maker's data sheets, of the fastest model of a name and rounded up; 1 MAC = 2 FLOPs."""


def peak(device: str) -> int:
    """The peak in TFLOP/s of a device whose name contains a known one. Raises ClaimsError with the nearest names."""
    words = " ".join(device.casefold().replace("-", " ").replace("_", " ").split())
    held = [name for name in PEAK_TFLOPS if name in words or name.replace(" ", "") in words]
    if held:
        return PEAK_TFLOPS[max(held, key=len)]
    near = get_close_matches(words, PEAK_TFLOPS, n=3, cutoff=0) or list(PEAK_TFLOPS)
    raise ClaimsError(f"device {device!r} has no peak on our list; the nearest are {', '.join(near)}")


def check(facts: Facts) -> Iterator[Finding]:
    """Check every prefill time of a named device. Raises ClaimsError if the peak of the user's device is not known."""
    for line in facts.lines:
        figure, work = line.figure("prefill"), _least_work(line)
        if line.device is None or figure is None or work is None:
            continue
        try:
            yield _finding(line, figure, line.device, peak(line.device), work)
        except ClaimsError:
            if line.table.device is None:  # a paper may name whatever it ran on
                raise
        if facts.device is not None:
            yield from _beside_operators(line, figure, facts.device)


def _beside_operators(line: Line, figure: Figure, device: str) -> Iterator[Finding]:
    """Doubt a dense time that is far from what an engine's operators take. A prediction proves nothing.

    Nothing is said where the extra `predict`, the table or the number of samples is missing.
    """
    from trio_profile.cost.aiconfigurator import tables  # with numpy, which an audit without a GPU need not import
    from trio_profile.cost.prediction import Prediction, span

    samples = 1 if figure.quantity.unit == "ms" else line.samples
    if samples is None or not line.row.dense:
        return
    printed = 1000 * float(figure.amount.value / samples)
    try:
        takes = {
            table.engine: Prediction(table, shape(line.model, line.text_count)).whole() for table in tables(device)
        }
    except StudyError:
        return
    low, high = span(takes.values())
    if printed < low / _FAR or printed > high * _FAR:
        why = (
            f"1000 · {number(figure.amount.value)} / {samples} = {number(printed)} ms. The operators of the decoder "
            f"are predicted to take {number(low)} to {number(high)} ms on this GPU ({listed(list(takes))}). "
            "It is a doubt, not a proof: another GPU, another program or other samples would explain it."
        )
        yield Subject.of(line, "operators", figure, unit="ms").finding("underdetermined", why, high)


def _finding(line: Line, figure: Figure, device: str, most: int, work: Fraction) -> Finding:
    unit, scale = ("ms", 1000) if figure.quantity.unit == "ms" else ("s", 1)
    samples = 1 if unit == "ms" else line.table.samples
    longest = figure.amount.high
    needs = f"A prefill of this row is at least {number(work / 10**12)} TFLOPs, {device} does at most {most} TFLOP/s"
    if samples is None:
        fits = int(longest * most * 10**12 / work)
        why = f"{needs}: the print is possible for at most {fits} inputs. How many it is summed over would decide it."
        return Subject.of(line, "roofline", figure, unit="samples").finding("underdetermined", why, fits)
    least = work * samples / (most * 10**12)
    verdict, can = ("overstated", "cannot be") if least > longest else ("supported", "can be")
    of = "it takes" if samples == 1 else f"{samples} of them take"
    why = f"{needs}: {of} {number(least * scale)} {unit} or more; {figure.printed.text} {unit} {can}."
    return Subject.of(line, "roofline", figure, unit=unit).finding(verdict, why, least * scale)


def _least_work(line: Line) -> Fraction | None:
    """The least FLOPs of the decoder; None if a pruned row states no average."""
    tokens = Fraction(line.model.visual_tokens)
    if line.nominal:
        if line.held is None:
            return None
        tokens = line.held.low
    elif not line.row.dense:
        if line.retention is None:
            return None
        # Of all schedules with one average, equal tokens in every layer cost the least.
        tokens *= line.retention.allowed.low
    tokens += line.row.text_tokens or 0
    macs = layer_macs(tokens, shape(line.model), causal="half")  # pyright: ignore[reportArgumentType]
    return 2 * line.model.layers * Fraction(macs)
