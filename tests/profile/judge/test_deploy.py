"""Whether to prune: hand-worked candidates, and the law that no candidate refutes the sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profile.law import Case, Row, check_deployed
from tests.profile.reading import line_of
from trio_profile.judge.deploy import Candidate, Words, decide
from trio_profile.judge.evidence import Evidence
from trio_profile.judge.sureness import Weakness
from trio_profile.records.conclusion import Conclusion

WORDS = Words("cell", "the prefill is {} times as fast")
SEEN = Evidence()
LOW = Weakness("low", "other programs used 23 % of the processors")


def concluded(*candidates: Candidate, evidence: Evidence = SEEN) -> Conclusion:
    return decide(candidates, evidence, WORDS)[0]


def candidate(
    name: str, gain: tuple[float, float], loss: tuple[float, float] | None = (0.0, 0.01), **fields
) -> Candidate:
    lost = 0.0 if loss is None else sum(loss) / 2
    return Candidate(name, gain, loss=loss, **{"lost": lost, **fields})


def test_do_needs_a_gain_and_kept_answers_and_no_doubt():
    sure = candidate("trio at 33.0 %", (1.439, 1.6), (0.0, 0.0119))
    found = concluded(sure)
    assert line_of(found) == (
        "Do: trio at 33.0 %. The prefill is at least 1.43 times as fast and at most 1.2 points of right answers are "
        "lost."
    )
    assert (found.gain, found.loss, found.sureness) == ((1.439, 1.6), 0.0119, "high")
    for worse in (
        candidate("a", (1.4, 1.6), (-0.01, 0.021)),
        candidate("a", (1.4, 1.6), None),
        candidate("a", (1.4, 1.6), whole=(0.9, 1.2)),
        candidate("a", (1.4, 1.6), weaknesses=(LOW,)),
    ):
        assert concluded(worse).word == "try", worse
    assert concluded(candidate("a", (1.4, 1.6), weaknesses=(LOW,))).reasons == (LOW.reason,)


def test_the_reasons_say_for_how_many_cells_a_bound_holds():
    """The table prints intervals for one row each, so a bound of all rows is wider than the one in sight."""
    keeps, slow, open_ = (
        candidate(name, gain, loss)
        for name, gain, loss in (
            ("a", (1.4, 1.6), (0.0, 0.01)),
            ("b", (0.8, 1.0), (0.0, 0.01)),
            ("c", (1.4, 1.6), (-0.01, 0.04)),
        )
    )
    exclude = "the intervals exclude that it is slower, and a loss of more than 1 points"
    assert concluded(keeps).reasons == (exclude,)
    assert concluded(keeps, slow).reasons == (f"{exclude}, for 2 cells together",)
    assert concluded(open_, slow).reasons == ("the questions do not exclude a loss of 4 points, for 2 cells together",)
    losing = candidate("d", (2.0, 2.2), (0.03, 0.2))
    assert concluded(losing).reasons == ("these bounds hold",), "it is faster, so no gain is excluded"


def test_a_loss_that_the_questions_show_is_no_try_but_one_that_they_only_suggest_is_not_decided():
    assert line_of(concluded(candidate("a", (2.0, 2.2), (0.03, 0.2)))) == (
        "Do not: of 1 cell 1 is faster at a loss of more than 2 points of right answers."
    )
    found = concluded(candidate("a", (2.0, 2.2), (-0.047, 0.278)))
    assert found.word == "not decided"
    assert "it loses 11.6 [−4.7, 27.8] points of right answers" in found.sentence


def test_what_a_study_cannot_say_is_not_said():
    never_right = Evidence(answers="the dense model answers none of 120 questions right, so it can lose none")
    found = concluded(candidate("a", (2.0, 2.2), (0.0, 0.0)), evidence=never_right)
    assert (found.word, found.loss) == ("try", None)
    assert "points" not in found.sentence
    assert found.reasons == (f"nothing is said of answers: {never_right.answers}",)
    assert line_of(concluded()) == "Nothing to decide: no cell of a method is measured (controls do not count)."


def test_a_mix_of_reasons_is_counted():
    slow, losing = candidate("a", (0.8, 1.04)), candidate("b", (2.0, 3.0), (0.1, 0.2))
    later = candidate("c", (1.5, 2.0), whole=(0.8, 0.9))
    assert concluded(slow, losing, later).sentence == (
        "of 3 cells 1 is at most 5 % faster, 1 is slower with decoding and 1 is faster at a loss of more than 2 points "
        "of right answers."
    )


def test_of_candidates_that_cannot_be_told_apart_the_one_that_loses_least_is_named():
    first, other = (
        candidate("a", (2.0, 2.4), (-0.1, 0.1), lost=0.01),
        candidate("b", (2.1, 2.5), (-0.1, 0.1), lost=0.02),
    )
    found, best = decide([other, first], SEEN, WORDS)
    assert best is first
    assert found.sentence.endswith(". It is not decided whether b is faster.")


def test_a_candidate_that_is_shown_to_be_faster_is_not_said_to_be_undecided():
    kept, fast = candidate("a", (1.1, 1.2), (-0.01, 0.01)), candidate("b", (3.0, 3.2), (-0.01, 0.05))
    found, best = decide([kept, fast], SEEN, WORDS)
    assert (found.word, best) == ("do", kept)
    assert found.sentence.endswith(". Faster, but less sure in answers or times: b.")


def test_a_faster_cell_that_loses_answers_is_told_beside_one_that_may_be_faster():
    found = concluded(candidate("a", (2.0, 2.2), (0.1, 0.2)), candidate("b", (0.9, 1.5)))
    assert line_of(found) == (
        "Not decided: of 2 cells 1 is faster at a loss of more than 2 points of right answers, and none of the others "
        "is shown to be faster. The largest gain is possible with b: the prefill is 0.9 to 1.5 times as fast."
    )


@pytest.mark.parametrize("whole", [(0.001, 1465.0), (1e-6, 1e6)])
def test_an_interval_that_says_nothing_is_in_no_sentence(whole: tuple[float, float]):
    found = concluded(candidate("a", (1.4, 1.6), (-0.01, 0.01), whole=whole))
    assert (
        "prefill and decoding together were timed too seldom to tell" in found.sentence and "1465" not in found.sentence
    )
    assert "it is not shown that prefill and decoding together are faster" in str(found.reasons)
    undecided = concluded(candidate("a", whole, (-0.01, 0.01)))
    assert undecided.sentence.endswith(
        "The largest gain is possible with a: it was measured too seldom to tell how large."
    )


def test_a_loss_without_an_interval_is_told():
    kept = candidate("a", (0.9, 1.5))
    found = concluded(candidate("b", (2.0, 2.2), None, lost=0.1), kept)
    assert "it loses 10.0 points of right answers, whose interval is not known" in found.sentence


# --- the law ---------------------------------------------------------------------------------------------------------

ends = st.floats(0.3, 4.0)
shares = st.floats(-0.2, 0.3).map(lambda share: share or 0.0)  # hypothesis tells -0.0 from 0.0


@st.composite
def candidates(draw, name: str) -> Candidate:
    gain = tuple(sorted((draw(ends), draw(ends))))
    whole = draw(st.none() | st.tuples(ends, ends).map(sorted).map(tuple))
    loss = draw(st.none() | st.tuples(shares, shares).map(sorted).map(tuple))
    lost = 0.0 if loss is None else draw(st.floats(loss[0], loss[1]))
    weak = draw(st.lists(st.sampled_from([LOW, Weakness("medium", "few rounds")]), max_size=2))
    return Candidate(name, gain, whole, loss, lost, tuple(weak))


many = st.integers(0, 5).flatmap(lambda count: st.tuples(*(candidates(f"cell-{number}") for number in range(count))))


@given(many, st.sampled_from([SEEN, Evidence(answers="no answers are known")]))
def test_no_candidate_refutes_the_conclusion(chosen, evidence):
    conclusion, best = decide(chosen, evidence, WORDS)
    rows = {}
    for row in chosen:
        sureness = "low" if LOW in row.weaknesses else "medium" if row.weaknesses else "high"
        rows[row.name] = Row(row.name, row.gain, row.whole, row.loss, sureness=sureness)
    named = [] if best is None else [rows[best.name]]
    check_deployed(Case("deploy", conclusion, [*rows.values()], named, not evidence.answers, together=True))
    assert conclusion.word != "try" or evidence.answers or best.lost <= 0.02
