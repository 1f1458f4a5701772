"""The recommendation in words."""

from tests.profile import examples
from tests.profile.judge.test_recommendation import cell
from trio_profile.judge.recommendation import Recommendation, recommend
from trio_profile.records.schema import FileDigest
from trio_profile.report import recommendation


def said(*cells) -> str:
    return recommendation.sentence(recommend(cells, []))


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


def test_a_badge_stands_wherever_something_was_measured():
    badges = recommendation.badges(recommend([cell("trio", 0.22, 1.4, 0.0)], []))
    assert [badge.title for badge in badges] == ["Confidence in the speed: high", "Confidence in the answers: high"]
    assert recommendation.badges(Recommendation(status="unmeasured")) == []


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
