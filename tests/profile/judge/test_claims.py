"""Sentences of claims that a row refuted once."""

from tests.profile.reading import line_of
from trio_profile.judge.claims import TimedPrefill, of_audit, of_bounds, of_effects, of_prefills, of_work


def test_nothing_is_said_of_speeds_that_were_not_measured():
    found = of_effects({"k_pos 1": (-0.01, 0.01)}, {}, "", ())
    assert line_of(found) == "Matters by less than 1 points: none of 1 variant differs from the default by more."


def test_variants_that_are_worse_and_better_are_told_apart():
    answers, speeds = {"a": (-0.2, -0.1), "b": (0.1, 0.2), "c": (-0.1, 0.1)}, {"a": (1.1, 1.2), "c": (0.8, 0.9)}
    assert line_of(of_effects(answers, speeds, "", ())) == (
        "Matters: of 3 variants, compared with the default, 1 is worse in answers: a; 1 is better in answers: b; "
        "1 is slower: c; 1 is faster: a."
    )
    assert line_of(of_effects({"a": (-0.2, -0.1)}, {}, "", ())).endswith(": a. None is shown to be better.")


def test_an_audit_is_sure_of_a_contradiction_and_of_what_was_recomputed_as_a_whole():
    assert of_audit(2, 1, 0, 9, 3).sureness == "high"
    assert of_audit(2, 0, 0, 9, 3).reasons == ("only 3 of 9 printed figures were recomputed",)
    assert of_audit(2, 0, 0, 3, 3).sureness == "high"
    assert of_audit(2, 0, 1, 3, 3).sureness is None


def test_no_more_than_all_answers_may_change():
    assert "one may by 100 points" in of_effects({"k_pos 1": (-1.15, 0.9)}, {}, "", ()).sentence


def test_declared_work_is_no_exact_count():
    levels = [of_work("2 T MACs", "3 T MACs", 1.5, 4, "", (), declared=declared).sureness for declared in (False, True)]
    assert levels == ["high", "medium"]


def test_the_prefill_that_is_not_decided_is_named():
    reached, open_ = (TimedPrefill(name, 2.0, gain, processes=4) for name, gain in (("a", (2, 3)), ("b", (1, 3))))
    assert (
        line_of(of_prefills([reached, open_]))
        == "Not decided: the formula claims 2.00× for b, and the prefill is 1 to 3 times as fast."
    )
    assert of_prefills([reached]).sureness == "high"
    assert of_prefills([reached._replace(processes=1)]).sureness == "medium"


def test_a_stage_that_is_not_known_does_not_hold():
    assert of_bounds({"after layer 1": (0.1, 0.2), "after layer 2": None}).word == "not decided"
