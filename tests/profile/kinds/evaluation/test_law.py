"""The law over whole evaluations: see tests/profile/law.py."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.kinds.evaluation import kept
from tests.profile.law import Case, Row, about, around, check_deployed, law
from trio_profile.kinds.evaluation.document import EvaluatedCell, Evaluation, conclude
from trio_profile.records.estimate import Ratio

evaluation = cache(kept.evaluation)
speeds = st.sampled_from([0.5, 0.98, 1.02, 1.1, 1.6, 3.0])
averages = st.sampled_from([0.4, 0.9, 0.985, 1.0, 1.02])
good = st.sampled_from([1.6, 3.0])


@st.composite
def ratios(draw: st.DrawFn, middles: st.SearchStrategy[float] = speeds) -> Ratio:
    value, interval = draw(around(middles))
    return Ratio(value=value, ci95=interval, samples=draw(st.sampled_from([6, 50])), stopped="budget")


@st.composite
def evaluated(draw: st.DrawFn, row: EvaluatedCell) -> EvaluatedCell:
    """A row with other speed-ups and another average. Good, open and losing ones come more often."""
    is_good = draw(st.booleans())
    average, interval = draw(around(st.just(1.0) if is_good else averages))
    reach = 0.005 if is_good else draw(st.sampled_from([0.001, 0.01, 1.0])) * (interval[1] - average)
    update = {
        "prefill_speedup": draw(ratios(good)) if is_good else draw(st.none() | ratios()),
        "total_speedup": draw(st.none() | ratios(st.sampled_from([1.02, 1.6]) if is_good else speeds)),
        "remark": draw(st.sampled_from(["", "", "", "control"])),
        "average": average,
        "average_ci95": draw(st.sampled_from([None, *[(max(average - reach, 0), average + reach)] * 3])),
    }
    if not is_good and draw(st.booleans()):
        lost, speed, ends = draw(st.sampled_from([(0.0, 1.1, (0.9, 1.3)), (0.1, 2.0, (1.95, 2.05))]))
        speedup = Ratio(value=speed, ci95=ends, samples=50, stopped="budget")
        update |= {"prefill_speedup": speedup, "total_speedup": None}
        update |= {"average": 1 - lost, "average_ci95": (0.99 - lost, 1.01 - lost)}
    return row.model_copy(update=update)


def random_model(model: str) -> bool:
    return model == "llava-1.5-7b"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    base = evaluation()
    scores = draw(st.sampled_from([*[base.dense] * 6, None, scoring_nothing(base.dense)]))
    model = draw(st.sampled_from([*["MODEL"] * 6, "llava-1.5-7b"]))
    cells = tuple(draw(evaluated(row)) for row in base.cells[: draw(st.sampled_from([0, 1, 2, 3, 3, 3]))])
    update = {"cells": cells, "dense": scores, "study": base.study.model_copy(update={"model": model})}
    document = base.model_copy(update=update)
    conclusion, rows = conclude(document), [row_of(row) for row in cells if row.prefill_speedup]
    named = [row for row in rows if row.name in about(conclusion)]
    return Case("eval", conclusion, rows, named, answers=mean_something(document))


def scoring_nothing(dense: EvaluatedCell) -> EvaluatedCell:
    first, *others = dense.benchmarks
    return dense.model_copy(update={"benchmarks": (first.model_copy(update={"value": 0.0}), *others)})


def mean_something(document: Evaluation) -> bool:
    dense = document.dense
    return not random_model(document.study.model) and dense is not None and all(s.value > 0 for s in dense.benchmarks)


def row_of(row: EvaluatedCell) -> Row:
    """One process measures an evaluation, so it is never sure."""
    kept = row.average_ci95
    return Row(
        name=f"{row.cell.method} at {100 * row.cell.retention:.1f} %",
        gain=row.prefill_speedup.ci95,
        whole=None if row.total_speedup is None else row.total_speedup.ci95,
        loss=None if kept is None else (1 - kept[1], 1 - kept[0]),
        control=row.remark == "control",
        sureness="medium",
    )


@law(300)
@given(cases())
def test_no_row_of_an_evaluation_refutes_its_conclusion(case: Case):
    check_deployed(case)
