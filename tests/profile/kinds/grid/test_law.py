"""The law over whole sweeps, comparisons and ablations: see tests/profile/law.py."""

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.profile import examples
from tests.profile.law import SEEN, Case, Interval, Row, check_deployed, joint, law, least, numbers
from trio_profile.kinds.grid.ablate import Ablation, ablate
from trio_profile.kinds.grid.compare import Comparison, compare
from trio_profile.kinds.grid.sweep import SweepDocument, summarise
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Pair, Timed, Timing

SPEEDS = [0.5, 0.98, 1.02, 1.04, 1.1, 1.6, 3.0]
LOSSES = [-0.05, 0.0, 0.01, 0.05, 0.3, 1.0]
measured = cache(examples.measurement)


def timings(draw: st.DrawFn, noise: np.random.Generator, sessions: int, speeds: list[float]) -> tuple[Timing, ...]:
    """Six prefills of one speed-up in each session, and as many generations."""
    prefill, rest = draw(st.sampled_from(speeds)), draw(st.sampled_from(speeds))
    spread = draw(st.sampled_from([0.0005, 0.0005, 0.01, 0.2]))

    def pair(new_tokens: bool) -> Pair:
        first, later = 100 * np.exp(spread * noise.standard_normal(2)) / (prefill, rest)
        dense, pruned = Timed(prefill_ms=100), Timed(prefill_ms=first)
        if new_tokens:
            dense = Timed(prefill_ms=100, ttft_ms=100, total_ms=200)
            pruned = Timed(prefill_ms=first, ttft_ms=first, total_ms=first + later)
        return Pair(dense=dense, pruned=pruned)

    generations = 6 * draw(st.booleans())
    return tuple(
        Timing(
            session=str(number),
            pairs=tuple(pair(False) for _ in range(6)),
            generations=tuple(pair(True) for _ in range(generations)),
        )
        for number in range(sessions)
    )


def contents(draw: st.DrawFn, verb: str) -> Contents:
    """A study of a few cells: their times, their answers, and what is doubtful. Every second one is a good study."""
    good = draw(st.booleans())
    noise = np.random.default_rng(draw(st.integers(0, 999)))
    methods = draw(st.sampled_from([("trio",), ("trio", "random"), ("trio", "fastv", "random")]))
    retentions = draw(st.sampled_from([(0.11,), (0.11, 0.3301), (0.33, 0.3301)]))
    k_pos = {"1": {"k_pos": 1}, "2": {"k_pos": 2}, "4": {}}
    more = {"methods": ("trio",), "ablations": {"k_pos": k_pos}} if verb == "ablate" else {}
    model = draw(st.sampled_from([*["MODEL"] * 5, "llava-1.5-7b"]))
    asked = examples.study(**{"methods": methods, "retentions": retentions, "verb": verb, "model": model, **more})
    sessions = 4 if good else draw(st.sampled_from([1, 3]))
    questions = draw(st.sampled_from([400, 1000] if good else [0, 60, 1000, 1000]))
    right = noise.random(questions) < draw(st.sampled_from([0.6, 1.0] if good else [0.0, 0.01, 0.01, 0.25]))
    speeds, losses = (SPEEDS, LOSSES) if draw(st.booleans()) else ([1.6, 1.62, 1.64], [0.0, 0.0, 0.01])
    chance = draw(st.sampled_from([None, 0.25])) if questions else None
    unpruned = examples.dense().model_copy(update={"correct": tuple(right.tolist()), "chance": chance})
    cells = []
    for cell in asked.cells():
        if draw(st.integers(0, 9)) == 0:
            continue
        own = measured(cell.method, cell.retention, pairs=1)
        lost = draw(st.sampled_from(losses))
        correct = np.where(noise.random(questions) < abs(lost), lost < 0, right)
        update = {
            "cell": cell,
            "remark": "control" * (cell.method == "random"),
            "timings": timings(draw, noise, sessions, speeds),
            "fidelity": examples.right_answers(correct.tolist()) if questions and draw(st.integers(0, 9)) else None,
        }
        cells.append(own.model_copy(update=update))
    busy = draw(st.sampled_from([0.0, 0.0, 0.0, 0.4]))
    opened = [examples.session(id=str(number), busy=busy, command="trio-profile sweep") for number in range(sessions)]
    return examples.contents_of(asked, cells, unpruned, opened, examples.rounds_of(*cells))


def mean_something(found: Contents) -> bool:
    """Whether dense is right more often than by chance, and often enough to lose two points."""
    right = found.dense.correct
    if not right or found.study.model != "MODEL":
        return False
    return least(sum(right) / len(right), len(right)) > max(found.dense.chance or 0.0, 0.02)


def row_of(document: SweepDocument | Comparison, cell: CellSummary) -> Row:
    lost = cell.accuracy_difference
    own = [doubt for doubt in document.doubts if doubt.cell is None or doubt.cell.id == cell.cell.id]
    return Row(
        name=f"{cell.method} at {100 * cell.retention.realised:.1f} %",
        gain=cell.prefill_speedup.ci95,
        whole=None if cell.total_speedup is None else cell.total_speedup.ci95,
        loss=None if lost is None else (-lost.ci95[1], -lost.ci95[0]),
        control=cell.remark == "control",
        sureness="low" if cell.prefill_speedup.sessions < 2 or own else "high",
    )


@dataclass
class Ablated:
    """An ablation, and whether its answers mean anything."""

    document: Ablation
    answers: bool

    def __repr__(self) -> str:
        rows = [
            (row.variant, row.nominal_retention, row.default_difference, row.prefill_speedup)
            for group in self.document.groups
            for row in group.rows
        ]
        return f"{self.document.conclusion!r} {rows} answers={self.answers}"


@st.composite
def cases(draw: st.DrawFn, verb: str) -> Case:
    """A document of a sweep or of a comparison, as a case: hypothesis prints what a strategy draws."""
    found = contents(draw, verb)
    document = compare(found) if verb == "compare" else summarise(found)
    rows = {cell.cell.id: row_of(document, cell) for cell in document.summaries if cell.prefill_speedup}
    named = [] if document.pick is None else [rows[document.pick.id]]
    return Case(verb, document.conclusion, list(rows.values()), named, mean_something(found))


@law(80)
@given(cases("sweep"))
def test_no_row_of_a_sweep_refutes_its_conclusion(case: Case):
    check_grid(case)


@law(40)
@given(cases("compare"))
def test_no_row_of_a_comparison_refutes_its_conclusion(case: Case):
    check_grid(case)


def check_grid(case: Case) -> None:
    assert all(row.name in case.conclusion.sentence for row in case.named if case.conclusion.word != "do not")
    check_deployed(case)


@st.composite
def ablations(draw: st.DrawFn) -> Ablated:
    found = contents(draw, "ablate")
    return Ablated(ablate(found), mean_something(found))


@law(60)
@given(ablations())
def test_no_row_of_an_ablation_refutes_its_conclusion(ablated: Ablated):
    check_ablation(ablated)


def test_a_variant_that_loses_answers_refutes_that_none_differs():
    """What hypothesis draws changes with each edit of the law. This case stays."""
    check_ablation(Ablated(examples.ablation(), answers=True))


def check_ablation(ablated: Ablated) -> None:
    """Check which variants differ, with the rows of all groups."""
    document, answers, conclusion = ablated.document, ablated.answers, ablated.document.conclusion
    SEEN["ablate"][re.sub(r"[\d.]+", "x", conclusion.word)] += 1
    several = len(set(document.study.retentions)) > 1
    rows = {
        f"{group.name} {row.variant}" + f" at {100 * row.nominal_retention:.1f} %" * several: row
        for group in document.groups
        for row in group.rows
    }
    defaults = {row.nominal_retention: row for row in rows.values() if row.default}
    changes = {name: row.default_difference.ci95 for name, row in rows.items() if row.default_difference and answers}
    pairs = {
        name: (row.prefill_speedup, default.prefill_speedup)
        for name, row in rows.items()
        if not row.default and (default := defaults.get(row.nominal_retention)) and row.prefill_speedup
    }
    sentence, count = conclusion.sentence, len(changes) + len(pairs)
    assert answers or "points" not in sentence
    named = {
        aspect: re.split("; ", names)
        for aspect, names in re.findall(r"(?:is|are) ([a-z ]+): (.+?)(?=; \d+ (?:is|are) |\.$|\. None)", sentence)
    }
    apart = {name: own.value / other.value for name, (own, other) in pairs.items() if _apart(own, other)}
    different = {
        "worse in answers": [name for name, (_, high) in changes.items() if high < 0],
        "better in answers": [name for name, (low, _) in changes.items() if low > 0],
        "slower": [name for name, factor in apart.items() if factor < 1],
        "faster": [name for name, factor in apart.items() if factor > 1],
    }
    assert ("None is shown to be better" in sentence) <= (not named.keys() & {"better in answers", "faster"})
    for aspect, names in named.items():
        assert {name for name in names if not re.fullmatch(r"\d+ more", name)} <= {*different[aspect]}, aspect
    clear = [name for name, ci in changes.items() if not _within(joint(ci, count, of_ratio=False), 0.0)]
    if conclusion.word != "matters":
        assert not clear
    else:
        assert sum(numbers("# (?:is|are) (?:worse|better) in answers", sentence)) >= len(clear)
        assert named
    if conclusion.word.startswith("matters by less"):
        [points] = numbers("less than # points", conclusion.word)
        assert all(max(map(abs, ci)) <= points / 100 + 1e-9 for ci in changes.values()) and points <= 2
        for factor in numbers("factor of #", sentence):
            assert pairs and all(1 / factor <= own.value / other.value <= factor for own, other in pairs.values())
    for points in numbers("one may by # points", sentence):
        assert changes and points / 100 + 1e-9 >= max(max(map(abs, ci)) for ci in changes.values())
    if conclusion.sureness == "high":
        assert not document.doubts and all(own.sessions > 1 for own, _ in pairs.values()) and answers


def _within(interval: Interval, value: float) -> bool:
    return interval[0] <= value <= interval[1]


def _apart(own, other) -> bool:
    """Whether neither interval holds the other's median: two speed-ups that differ have this in any case."""
    return not _within(own.ci95, other.value) and not _within(other.ci95, own.value)


# --- what the issue quotes --------------------------------------------------------------------------------------------


def studied(*cells: tuple[str, float, int], right: int, questions: int = 24, **fields) -> Contents:
    """A study in four processes. cells: the method, its speed-up, and how many of the right answers it loses."""
    asked = examples.study(tuple(method for method, *_ in cells), retentions=(0.33,), model="MODEL", **fields)
    told, places = [], np.arange(questions)
    for method, speed, lost in cells:
        sessions = [[examples.pair(100, 100 / speed * (1 + 0.004 * n))] * 6 for n in range(4)]
        answers = examples.right_answers(((places < right) & (places >= lost)).tolist())
        seen = {"fidelity": answers, "remark": "control" * (method == "random")}
        told.append(examples.with_pairs(measured(method, 0.33, pairs=1), *sessions).model_copy(update=seen))
    unpruned = examples.dense().model_copy(update={"correct": tuple((places < right).tolist())})
    rounds = examples.rounds_of(*told)
    opened = [examples.session(id=name, command="sweep") for name in dict.fromkeys(one.session for one in rounds)]
    return examples.contents_of(asked, told, unpruned, opened, rounds)


def test_of_answers_that_are_never_right_nothing_is_said():
    for summary in (summarise, compare):
        found = summary(studied(("trio", 2.0, 0), right=0)).conclusion
        assert (found.word, found.loss, found.sureness) == ("try", None, "medium")
        assert "points" not in found.sentence and "answers none of 24 questions right" in found.reasons[0]


def test_a_row_that_loses_nothing_is_named_and_not_the_one_that_loses_most():
    found = compare(studied(("norm", 3.0, 22), ("downsample", 2.7, 0), ("random", 4.0, 0), right=24)).conclusion
    assert (found.word, found.sureness) == ("try", "low")
    assert found.sentence.startswith("downsample at 33.0 %. The prefill is at least 2.6")
    assert "exclude a loss" not in " ".join(found.reasons).replace("do not exclude", "")


def test_a_speed_up_with_decoding_that_nothing_bounds_is_no_reason_to_keep_anything():
    found = studied(("divprune", 3.0, 0), right=300, questions=300, new_tokens=8)
    cell = found.measurements[0]
    dense = Timed(prefill_ms=100, ttft_ms=100, total_ms=200)
    wild = [
        Pair(dense=dense, pruned=Timed(prefill_ms=33, ttft_ms=33, total_ms=33 + rest)) for rest in (1, 999, 20, 400)
    ]
    timings = [one.model_copy(update={"generations": (pair,)}) for one, pair in zip(cell.timings, wild, strict=False)]
    cell = cell.model_copy(update={"timings": tuple(timings)})
    told = examples.contents_of(found.study, [cell], found.dense, found.sessions, found.rounds)
    assert summarise(told).conclusion.word != "do"


def test_a_loss_whose_interval_holds_0_is_not_decided():
    assert summarise(studied(("trio", 2.0, 3), right=24)).conclusion.word == "not decided"


def test_many_comparisons_are_counted_and_hold_together():
    variants = {str(number): {"k_pos": number} for number in range(1, 24)} | {"default": {}}
    asked = examples.study(verb="ablate", model="MODEL", retentions=(0.11,), ablations={"k_pos": variants})
    default = [True] * 100 + [False] * 100
    worse = [False] * 6 + [True] * 94 + [False] * 100
    cells = [
        examples.answering(changes, worse if int(n) <= 5 else default) for n, changes in list(variants.items())[:-1]
    ]
    unpruned = examples.dense().model_copy(update={"correct": tuple(default)})
    document = ablate(examples.contents_of(asked, [*cells, examples.answering({}, default)], unpruned))
    alone = [row for row in document.groups[0].rows if row.default_difference and row.default_difference.ci95[1] < 0]
    assert len(alone) == 5 and document.conclusion.word == "not decided"
    assert document.conclusion.sentence.startswith("none of 23 variants is shown to differ from the default")
