"""The recommendation in words."""

from tests.profile import examples
from tests.profile.analysis.test_recommendation import cell
from trio_profile.analysis.recommendation import Recommendation, recommend
from trio_profile.findings import recommendation
from trio_profile.records.session import FileDigest


def said(*cells) -> str:
    return recommendation.sentence(recommend(cells, []))


def test_one_sentence_says_what_to_keep_and_what_it_gains():
    first = said(cell("trio", 0.11, 1.7, 14.0), cell("trio", 0.22, 1.4, 0.5))
    assert first.startswith("Keep 22.0 % of the visual tokens with trio: prefill 1.40× as fast [1.35, 1.45]")
    assert "0.5 [−1.0, 2.0] points" in first
    assert "+1.5 [+0.0, +3.0] points" in said(cell("trio", 0.22, 1.4, -1.5))


def test_a_non_commercial_licence_is_said_in_the_same_sentence():
    bound = cell("tome", 0.22, 1.4, 0.0).model_copy(update={"remark": "its code is non-commercial"})
    assert "with tome (its code is non-commercial): " in said(bound)
    assert "(ours)" not in said(bound.model_copy(update={"remark": "ours"}))


def test_each_status_has_a_sentence():
    for cells, begins in (
        ([cell("trio", 0.9, 0.8)], "Do not prune here: no cell may be more than 5 % faster"),
        ([cell("trio", 0.9, 1.1, width=0.2)], "Measure longer"),
        ([cell("trio", 0.1, 1.8, 30.0)], "Do not prune here: all that is faster loses"),
        ([cell("trio", 0.11, 1.7)], "By cost alone, keep 11.0 %"),
        ([], "Nothing can be recommended yet"),
    ):
        assert said(*cells).startswith(begins)


def test_ties_and_the_floor_are_told_further_down():
    tie, floor = recommendation.further(
        recommend([cell("trio", 0.22, 1.4, 0.0), cell("fastv", 0.33, 1.38, 1.0), cell("trio", 0.11, 1.7, 14.0)], [])
    )
    assert "fastv at 33.0 % (1.38×, 1.0 points lost)" in tie
    assert floor == "Do not go below 22.0 %: at 11.0 % trio loses 14.0 [12.5, 15.5] points."
    [floor] = recommendation.further(recommend([cell("trio", 0.22, 1.4, 0.0)], []))
    assert floor == "trio was not measured below 22.0 %."


def test_a_badge_stands_wherever_something_was_measured():
    badge = recommendation.badge(recommend([cell("trio", 0.22, 1.4, 0.0)], []))
    assert badge is not None and badge.level == "high"
    assert recommendation.badge(Recommendation(status="unmeasured")) is None


def test_a_banner_says_what_a_built_in_model_is():
    digest = {"model/config.json": FileDigest(bytes=2, sha256="0" * 16)}
    for model, inputs, begins in (
        ("pocket", {}, "pocket is a toy model"),
        ("llava-1.5-7b", {}, "The weights of llava-1.5-7b are random numbers"),
        ("llava-hf/llava-1.5-7b-hf", {}, ""),
        ("checkpoint", digest, ""),
        ("pocket-deep", digest, ""),
        ("seed0", {}, ""),  # an old study of a trained checkpoint, which recorded no files
    ):
        told = recommendation.banner(model, [examples.session(inputs=inputs)])
        assert told.startswith(begins) and bool(told) == bool(begins)
