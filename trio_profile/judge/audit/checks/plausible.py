"""Compare prefill times with the peak of the named device: nothing can be faster.

The work is the least that the row can mean: only the decoder's products, half of the attention as in a causal kernel,
and as many visual tokens as the cache says. Peaks are the maker's dense figures for 16-bit tensor cores, at boost clock
and with the faster accumulation. So a time below this is impossible.
"""

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction

from trio_profile.judge.audit.claims import Row, Table
from trio_profile.judge.audit.facts import Facts, least_layer_work
from trio_profile.judge.audit.finding import Finding, Subject, number, place
from trio_profile.judge.audit.printed import Interval
from trio_profile.errors import ClaimsError

PEAK_TFLOPS: dict[str, int] = {
    "v100": 130,
    "a100": 312,
    "a800": 312,
    "a40": 150,
    "a6000": 155,
    "a10": 125,
    "l40s": 367,
    "l40": 182,
    "rtx 3090": 143,
    "rtx 4090": 331,
    "rtx 5090": 420,
    "h20": 148,
    "h800": 990,
    "h100": 990,
    "h200": 990,
    "b200": 2250,
}
"""TFLOP/s by device, from the maker's data sheets, of the fastest model of a name and rounded up; 1 MAC = 2 FLOPs."""


def peak(device: str) -> int:
    """The peak in TFLOP/s of a device whose name contains a known one. Raises ClaimsError with the nearest names."""
    words = " ".join(device.casefold().replace("-", " ").replace("_", " ").split())
    held = [name for name in PEAK_TFLOPS if name in words or name.replace(" ", "") in words]
    if held:
        return PEAK_TFLOPS[max(held, key=len)]
    near = get_close_matches(words, PEAK_TFLOPS, n=3, cutoff=0) or list(PEAK_TFLOPS)
    raise ClaimsError(f"device {device!r} has no peak on our list; the nearest are {', '.join(near)}")


def check(facts: Facts, device: str | None = None) -> Iterator[Finding]:
    """Check every prefill time of a named device.

    device: for tables that name none.
    """
    for table, row in facts.claims.rows():
        named = table.device or device
        found = facts.amount(row, "prefill")
        if named is None or found is None or facts.model(row) is None:
            continue
        try:
            most = peak(named)
        except ClaimsError:
            if table.device is None:
                raise
            continue  # a paper may name whatever it ran on
        if (work := _least_work(facts, table, row)) is not None:
            meant, printed = found
            samples = 1 if meant.unit == "ms" else table.samples
            subject = Subject(
                "roofline", place(table, row), meant.name, printed.text, "ms" if meant.unit == "ms" else "s"
            )
            yield _finding(subject, named, most, work, samples, printed.allowed.times(meant.scale))


def _finding(
    subject: Subject, device: str, most: int, work: Fraction, samples: int | None, seconds: Interval
) -> Finding:
    needs = f"A prefill of this row is at least {number(work / 10**12)} TFLOPs, {device} does at most {most} TFLOP/s"
    if samples is None:
        fits = int(seconds.high * most * 10**12 / work)
        why = f"{needs}: the print is possible for at most {fits} inputs. How many it is summed over would decide it."
        return replace(subject, unit="samples").finding("underdetermined", why, fits)
    least = work * samples / (most * 10**12)
    impossible = least > seconds.high
    shown = f"{number(1000 * least)} ms" if subject.unit == "ms" else f"{number(least)} s"
    of = "it takes" if samples == 1 else f"{samples} of them take"
    why = f"{needs}: {of} {shown} or more; {subject.printed} {subject.unit} {'cannot be' if impossible else 'can be'}."
    scaled = least * 1000 if subject.unit == "ms" else least
    return subject.finding("overstated" if impossible else "supported", why, scaled)


def _least_work(facts: Facts, table: Table, row: Row) -> Fraction | None:
    """The least FLOPs of the decoder; None if a pruned row states no average."""
    model, dense = facts.model(row), table.dense(row.model)
    assert model is not None
    cost = least_layer_work(model, row.text_tokens or 0)
    if row.method is None:
        held = facts.cached_tokens(table, row)
        tokens = Fraction(model.visual_tokens)
        if held is not None and facts.nominal(table, row):
            tokens = held[0].low
        return model.layers * cost(tokens)
    if dense is not None and facts.nominal(table, dense):
        held = facts.cached_tokens(table, row)
        return None if held is None else model.layers * cost(held[0].low)
    stated = facts.retention(row)
    if stated is None:
        return None
    # Of all schedules with one average, equal tokens in every layer cost the least.
    return model.layers * cost(stated.allowed.low * model.visual_tokens)
