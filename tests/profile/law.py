"""The law: no sentence of a conclusion is refuted by a row of its own table.

    python -m tests.profile.law [DOCUMENTS]    checks so many documents of each kind, and counts them by their words

An ordinary run checks few documents, always the same ones. With LAW_DOCUMENTS=250 each kind gets 250 new ones. The
oracles read the sentence and the intervals that the document prints. They share no code with `judge`.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from os import environ

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from trio_profile.records.conclusion import Conclusion, Level

DOCUMENTS = int(environ.get("LAW_DOCUMENTS", "0"))
SEEN: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""How many documents of each kind had which word."""
Interval = tuple[float, float]
TOLERATED, MATTERS = 0.02, 1.05
spreads = st.sampled_from([0.001, 0.02, 0.3])
"""Half the width of an interval over its middle: narrow, usual and wide."""


def law(documents: int) -> Callable:
    """The settings of a law. documents: how many an ordinary run checks.

    A case is small enough to read, so the first one that breaks the law is printed as it is.
    """
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(
        max_examples=DOCUMENTS or documents,
        derandomize=not DOCUMENTS,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=slow,
    )


@st.composite
def around(draw: st.DrawFn, middles: st.SearchStrategy[float]) -> tuple[float, Interval]:
    """A ratio with its interval."""
    middle, spread = draw(middles), draw(spreads)
    return middle, (middle * (1 - spread), middle * (1 + spread))


@dataclass(frozen=True)
class Row:
    """What the table of a document prints of something that could be deployed.

    name: as the sentence names it.
    gain, whole, loss: the intervals at 95 %, each for itself.
    sureness: the highest that its doubts and the number of processes leave. If it is low, the word is never `do`.
    """

    name: str
    gain: Interval
    whole: Interval | None = None
    loss: Interval | None = None
    control: bool = False
    sureness: Level = "high"


@dataclass(frozen=True)
class Case:
    """A conclusion on whether to prune, beside the table of its document.

    table: all rows with times. named: those that the sentence is about.
    answers: whether the answers of the study mean anything.
    unit: what follows a bound of the gain in the sentence.
    together: whether the table's intervals hold together as they are: ranges, and no confidence.
    """

    kind: str
    conclusion: Conclusion
    table: Sequence[Row]
    named: Sequence[Row]
    answers: bool
    unit: str = "times"
    together: bool = False


def joint(interval: Interval, comparisons: int, *, of_ratio: bool = True) -> Interval:
    """An interval at least as wide as one that holds with all others: Student's t never widens by a larger factor."""
    low, high = map(log, interval) if of_ratio else interval
    middle, reach = (low + high) / 2, comparisons * (high - low) / 2
    return (exp(middle - reach), exp(middle + reach)) if of_ratio else (middle - reach, middle + reach)


def least(share: float, samples: int) -> float:
    """The lower end of Wilson's interval of a share, with z² = 3.84."""
    margin = (3.84 * (share * (1 - share) + 0.96 / samples) / samples) ** 0.5
    return (share + 1.92 / samples - margin) / (1 + 3.84 / samples)


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers in a text where `#` stands in a pattern."""
    return [float(number.replace("−", "-")) for number in re.findall(pattern.replace("#", r"(−?\d+(?:\.\d+)?)"), text)]


def about(conclusion: Conclusion) -> str:
    """The part of a sentence that is about what it names, without the others that are or may be as fast."""
    return re.split("It is not decided|Faster, but", conclusion.sentence)[0]


def check_deployed(case: Case) -> None:
    """Check a conclusion on whether to prune."""
    kind, conclusion, table, named, answers, unit, together = vars(case).values()
    SEEN[kind][conclusion.word] += 1
    word, sentence = conclusion.word, conclusion.sentence
    rows = [row for row in table if not row.control]
    assert not any(row.control for row in named), "a control is named"
    if not rows:
        assert word == "nothing to decide"
        return
    losses = {row: row.loss if answers else None for row in rows}
    if not answers:
        assert conclusion.loss is None and "points" not in sentence
    _check_bounds(conclusion, named, losses, 1 if together else len(rows), unit)
    excludes = numbers("a loss of more than # points", " ".join(conclusion.reasons))
    assert all(losses[row][1] <= bound / 100 + 1e-9 <= 0.05 + 1e-9 for bound in excludes for row in named)
    match word:
        case "do" | "try":
            assert named and all(row.gain[0] > 1 for row in named)
            assert not any(_shown_bad(row, losses[row], len(rows)) for row in named)
        case "do not":
            assert all(_shown_bad(row, losses[row]) for row in rows)
            _check_counts(sentence, rows, losses, len(rows))
        case "not decided":
            assert conclusion.sureness == "low"
            if "is shown to be faster" in sentence:
                _check_none_faster(sentence, rows, losses)
    _check_others(sentence, named, rows)
    if word == "do":
        assert conclusion.sureness != "low" and not any(row.sureness == "low" for row in named)
        assert all(row.whole is None or row.whole[0] > 1 for row in named)
        assert all(losses[row] is not None and losses[row][1] <= TOLERATED for row in named)
    else:
        missed = [row for row in rows if row.sureness != "low" and _pays(row, losses[row], len(rows))]
        assert word == "nothing to decide" or not missed, "this one is shown to pay"
    if conclusion.sureness == "high":
        assert all(row.sureness == "high" for row in (rows if word == "do not" else named))
        assert word == "do not" or all(losses[row] is not None for row in named)


def _check_others(sentence: str, named: Sequence[Row], rows: Sequence[Row]) -> None:
    """Check what is said of rows that are not chosen: that they may be as fast, or that they are faster."""
    _, _, alike = sentence.partition("It is not decided whether ")
    alike, _, faster = f"{alike or sentence}".partition("Faster, but less sure in answers or times: ")
    for name in {row.name for row in rows}:
        same = [row for row in rows if row.name == name and row not in named]  # a name may stand for several options
        if "It is not decided whether" in sentence and f"{name} is faster" in alike:
            most = min(joint(other.gain, len(rows))[1] for other in named)
            assert any(joint(row.gain, len(rows))[0] <= most for row in same), "this one is faster"
        if name in re.split(r", | and |\.$", faster):
            assert any(row.gain[0] > max(other.gain[1] for other in named) for row in same), "this one is not faster"


def _check_bounds(
    conclusion: Conclusion, named: Sequence[Row], losses: dict[Row, Interval | None], comparisons: int, unit: str
) -> None:
    """Check the numbers of the sentence with the rows that it names, and with the fields of the conclusion."""
    text = conclusion.sentence
    together = text.partition("prefill and decoding together")[2]
    prefill = text.replace(together, "")
    for row in named:
        for bound in numbers(rf"at least # ?{unit}", prefill):
            assert bound <= row.gain[0]
        for bound in numbers("are at least # times", together):
            assert row.whole is not None and 1 <= bound <= row.whole[0]
        for bound in numbers("may be # times", together):
            assert row.whole is not None and bound >= row.whole[1]
        for bound in numbers("(?:at most|up to) # points", text):
            assert losses[row] is not None and bound >= 100 * losses[row][1] - 1e-9
        if conclusion.word in ("do", "try") and comparisons > 1 and row.gain[1] / row.gain[0] > 1 + 1e-6:
            assert conclusion.gain[0] < row.gain[0], "the level does not hold for all rows together"
    assert all(bound <= conclusion.gain[0] for bound in numbers(rf"at least # ?{unit}", prefill))
    assert not numbers("at most # points[^.]* are lost", text) or conclusion.loss <= TOLERATED


def _pays(row: Row, loss: Interval | None, comparisons: int) -> bool:
    """Whether a row is shown to be faster and to keep the answers, beside so many comparisons."""
    ends = [joint(interval, comparisons)[0] for interval in (row.gain, row.whole) if interval is not None]
    return (
        min(ends) > 1
        and row.gain[1] > MATTERS
        and loss is not None
        and joint(loss, comparisons, of_ratio=False)[1] <= TOLERATED
    )


def _shown_bad(row: Row, loss: Interval | None, comparisons: int = 1) -> bool:
    """Whether a row is shown to be too slow, or to lose too much, beside so many comparisons."""
    ends = [joint(interval, comparisons)[1] for interval in (row.gain, row.whole) if interval is not None]
    slow = ends[0] <= MATTERS or min(ends) < 1
    return slow or (loss is not None and joint(loss, comparisons, of_ratio=False)[0] > TOLERATED)


def _check_counts(sentence: str, rows: Sequence[Row], losses: dict[Row, Interval | None], expected: int) -> None:
    """Check that each row counts once, and that each count holds."""
    counts = {
        "at most 5 % faster": sum(row.gain[1] <= MATTERS for row in rows),
        "slower with decoding": sum(row.whole is not None and row.whole[1] < 1 for row in rows),
        "faster at a loss of more than 2 points": sum(
            loss is not None and loss[0] > TOLERATED for loss in losses.values()
        ),
    }
    told = {reason: sum(map(int, numbers(f"# (?:is|are) {reason}", sentence))) for reason in counts}
    assert sum(told.values()) == expected
    assert numbers("of # (?:cell|load|retention)s? ", sentence) == [len(rows)]
    for reason, count in told.items():
        assert count <= counts[reason], reason


def _check_none_faster(sentence: str, rows: Sequence[Row], losses: dict[Row, Interval | None]) -> None:
    """Check that no row is shown to be faster, but those of which the sentence says why they are left out."""
    left_out = [row for row in rows if _shown_bad(row, losses[row])]
    faster = [row for row in rows if joint(row.gain, len(rows))[0] > 1]
    assert all(row in left_out for row in faster)
    assert not faster or "none of the others is shown to be faster" in sentence


def main() -> int:
    """Run the laws of all kinds, and print how many documents were checked."""
    environ.setdefault("LAW_DOCUMENTS", sys.argv[1] if len(sys.argv) > 1 else "250")
    import pytest

    from tests.profile import law as laws

    status = pytest.main(["-k", "law", "-p", "no:xdist", "tests/profile/kinds"])
    for kind, words in sorted(laws.SEEN.items()):
        print(f"{kind}: {words.total()} documents ({', '.join(f'{word} {n}' for word, n in words.most_common())})")
    print(f"{sum(words.total() for words in laws.SEEN.values())} documents checked")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
