"""The law over whole studies of servers: see tests/profile/law.py."""

import re
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.servers import kept
from tests.profile.law import Case, Row, around, check_deployed, law, least
from tests.profile.reading import line_of
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.servers.advice import conclude
from trio_profile.kinds.servers.document import AtLoad, EndpointsDocument, ServedAnswers
from trio_profile.records.estimate import Accuracy, Difference, Gain

endpoints = cache(kept.endpoints_document)
speeds = st.sampled_from([0.5, 0.98, 1.02, 1.1, 1.6, 3.0])
QUANTITIES = {"closed": ("goodput", "throughput"), "open": ("goodput", "ttft_p95_ms")}
"""The quantities that decide in a loop, the first that was measured."""
LEVELS = {"prefix cache": "low", "few requests": "low", "transparent": "high", "no right answers": "high"}
"""Some kinds of doubt, each with the sureness that it leaves a gain."""
NOTHING = {
    "failed requests": "a server failed",
    "unanswered questions": "a server failed",
    "prompt length": "nothing was pruned",
}


@st.composite
def loads(draw: st.DrawFn, at: AtLoad, speeds: st.SearchStrategy[float]) -> AtLoad:
    """A load with other gains."""
    gains = {}
    for quantity in draw(st.sampled_from([("throughput", "ttft_p95_ms")] * 4 + [("goodput", "throughput"), ()])):
        value, interval = draw(around(speeds))
        gains[quantity] = Gain(value=value, ci95=interval, samples=draw(st.sampled_from([2, 8, 50])))
    return at.model_copy(update={"gains": gains})


@st.composite
def answers(draw: st.DrawFn) -> ServedAnswers:
    """The answers of both servers. Every second time they are good."""
    if draw(st.booleans()):
        accuracy, change = (
            Accuracy(value=0.6, ci95=(0.5, 0.7), samples=900),
            Difference(value=0, ci95=(-0.01, 0.01), samples=900),
        )
        return ServedAnswers(dense=accuracy, pruned=accuracy, difference=change, chance=0.25)
    count, reach = draw(st.sampled_from([(3, 0.6), (60, 0.06), (1000, 0.005), (1000, 0.06)]))
    right, lost = draw(st.sampled_from([0.0, 0.25, 0.6])), draw(st.sampled_from([-0.05, 0.0, 0.01, 0.3]))
    accuracy = Accuracy(value=right, ci95=(max(least(right, count), 0.0), min(right + 0.1, 1.0)), samples=count)
    change = Difference(value=-lost, ci95=(-lost - reach, -lost + reach), samples=count)
    return ServedAnswers(dense=accuracy, pruned=accuracy, difference=change, chance=draw(st.sampled_from([None, 0.25])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, list[str]]:
    base = endpoints()
    chosen = base.loads[: draw(st.integers(1, 4))] + base.loads[4:] * draw(st.sampled_from([0, 0, 1]))
    middles = draw(st.sampled_from([speeds, st.sampled_from([1.6, 3.0])]))
    kinds = [*LEVELS, *NOTHING] if draw(st.integers(0, 2)) == 0 else []
    kinds = draw(st.lists(st.sampled_from(kinds), unique=True, max_size=2)) if kinds else []
    update = {
        "loads": tuple(draw(loads(at, middles)) for at in chosen),
        "answers": draw(st.none() | answers()),
        "doubts": tuple(Doubt(cell=None, kind=k, sentence=k, next_step="n", found=1, threshold=1) for k in kinds),
        "pairs_left": draw(st.sampled_from([0, 0, 0, 3])),
    }
    document = base.model_copy(update=update)
    conclusion, rows = conclude(document), rows_of(document)
    part = re.split(r"(?:Prune|prune|with|with) (?:at )?(?=a )", conclusion.sentence + ".", maxsplit=1)[-1]
    named = [row for row in rows if row.name in names(part)] if conclusion.word != "do not" else []
    return Case("endpoints", conclusion, rows, named, answers=mean_something(document.answers), unit=""), [
        NOTHING[k] for k in kinds if k in NOTHING
    ]


def names(part: str) -> set[str]:
    """The loads that a part of a sentence begins with: `a concurrency of 1, 2 and 4. The gain …`."""
    found: set[str] = set()
    word = ""
    for text in re.split(r", | and ", re.split(r"\. |: | the gain", part)[0]):
        word, _, load = text.rpartition(" of ") if " of " in text else (word, "", text)
        found.add(f"{word} of {load}")
    return found


def mean_something(known: ServedAnswers | None) -> bool:
    return known is not None and known.dense.value > 0 and known.dense.ci95[0] > max(known.chance or 0.0, 0.02)


def rows_of(document: EndpointsDocument) -> list[Row]:
    """The gains in the quantities that decide."""
    levels = [LEVELS.get(doubt.kind, "high") for doubt in document.doubts] + ["low"] * bool(document.pairs_left)
    change = document.answers and document.answers.difference.ci95
    rows = []
    for at in document.loads:
        of_loop = [other.gains for other in document.loads if other.loop == at.loop]
        first, second = QUANTITIES[at.loop]
        gain = at.gains.get(first if any(first in gains for gains in of_loop) else second)
        if gain is not None:
            name = f"a {'concurrency' if at.loop == 'closed' else 'rate'} of {at.load:g}"
            level = "low" if "low" in levels else "medium" if "medium" in levels else "high"
            rows.append(Row(name, gain.ci95, loss=change and (-change[1], -change[0]), sureness=level))
    return rows


@law(150)
@given(cases())
def test_no_load_refutes_the_conclusion(drawn: tuple[Case, list[str]]):
    case, why = drawn
    if why:
        assert line_of(case.conclusion).startswith("Nothing to decide: ") and case.conclusion.gain is None
        assert all(reason in case.conclusion.sentence for reason in why)
        return
    check_deployed(case)
    _, slower, loads = case.conclusion.sentence.partition("It is shown to be slower at ")
    if slower:
        named = names(loads.removesuffix("."))
        assert named and all(row.gain[1] < 1 for row in case.table if row.name in named)


def test_few_requests_and_unknown_answers_are_a_try_that_says_both():
    doubt = Doubt(cell=None, kind="few requests", sentence="a segment has 5", next_step="n", found=5, threshold=100)
    found = conclude(endpoints().model_copy(update={"doubts": (doubt,), "answers": None}))
    assert (found.word, found.sureness) == ("try", "low")
    assert found.reasons[:2] == ("a segment has 5", "nothing is said of answers: no answers are known")
