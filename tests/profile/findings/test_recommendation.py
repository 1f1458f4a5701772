"""The recommendation in words."""

import pytest

from tests.profile import examples
from tests.profile.analysis.test_recommendation import cell
from trio_profile.analysis.recommendation import Recommendation, recommend
from trio_profile.findings import recommendation
from trio_profile.records.session import FileDigest


def said(*cells) -> list[str]:
    return list(recommendation.block(recommend(cells, [])).lines)


def test_the_first_sentence_says_what_to_use_and_the_others_what_to_avoid():
    first, floor = said(cell("trio", 0.11, 1.7, 14.0), cell("trio", 0.22, 1.4, 0.5))
    lost = "0.5 [−1.0, 2.0] points of right answers lost"
    assert first == f"Use trio at 22.0 %: prefill 1.40× faster [1.35, 1.45], {lost}."
    assert floor == "Do not go below 22.0 %: at 11.0 % trio loses 14.0 [12.5, 15.5] points of right answers."


def test_the_lowest_retention_has_no_limit_below():
    assert "trio was not measured below 22.0 %." in said(cell("trio", 0.22, 1.4, 0.0))


def test_a_gain_of_answers_is_called_one():
    assert said(cell("trio", 0.22, 1.4, -1.5))[0].endswith("+1.5 [+0.0, +3.0] points of right answers gained.")


def test_ties_are_named_with_their_speed():
    told = said(cell("trio", 0.22, 1.4, 0.0), cell("fastv", 0.33, 1.38, 1.0))
    assert "These measurements cannot tell which is faster: fastv at 33.0 % (1.38×, 1.0 points lost)." in told


def test_without_answers_it_speaks_of_cost_alone():
    first, second, *_ = said(cell("trio", 0.11, 1.7))
    assert first.startswith("By cost alone, trio at 11.0 % is fastest: prefill 1.70× faster")
    assert second.startswith("No answers are known here, so this says nothing about quality.")


def test_where_nothing_is_faster_it_says_so():
    assert said(cell("trio", 0.9, 0.8))[0] == "Do not prune here: no cell may be more than 5 % faster than dense."
    assert said(cell("trio", 0.9, 1.1, width=0.2))[0].startswith("No speed-up is shown.")
    assert said(cell("trio", 0.1, 1.8, 30.0))[0].startswith("Do not prune here: every cell that is faster")
    assert said()[0].startswith("Nothing can be recommended yet")


def test_a_badge_stands_wherever_something_was_measured():
    badge = recommendation.badge(recommend([cell("trio", 0.22, 1.4, 0.0)], []))
    assert badge is not None and badge.level == "high"
    assert badge.why == "4 processes agree; no doubt about this cell; 200 questions"
    assert recommendation.badge(Recommendation(status="unmeasured")) is None


@pytest.mark.parametrize(
    ("model", "inputs", "start"),
    [
        ("pocket", {}, "pocket is a toy model"),
        ("llava-1.5-7b", {}, "The weights of llava-1.5-7b are random numbers."),
        ("llava-hf/llava-1.5-7b-hf", {}, ""),
        ("checkpoint", {"model/config.json": FileDigest(bytes=2, sha256="0" * 16)}, ""),
    ],
)
def test_a_banner_says_what_a_built_in_model_is(model: str, inputs: dict, start: str):
    told = recommendation.banner(model, [examples.session(inputs=inputs)])
    assert told.startswith(start) and bool(told) == bool(start)


def test_a_study_that_records_no_files_may_have_a_checkpoint():
    assert recommendation.banner("checkpoint", [examples.session(id="")]) == ""
