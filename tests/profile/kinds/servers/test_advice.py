"""The recommendation of a study of servers, for each outcome."""

import pytest

from tests.profile.documents import asked_of, endpoints_document, segment_with
from tests.profile.kinds.servers.fake_servers import study
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import AtLoad
from trio_profile.kinds.servers.report import report
from trio_profile.kinds.servers.requests import ARMS
from trio_profile.kinds.servers.summary import document_of


def _widened(at: AtLoad) -> AtLoad:
    """The same load with an interval of the throughput's gain that contains 1."""
    gain = at.gains["throughput"].model_copy(update={"ci95": (0.9, 2.5)})
    return at.model_copy(update={"gains": {"throughput": gain}})


@pytest.mark.parametrize(
    ("wide", "says"),
    [
        ((), "Use the dense model at a concurrency of 8: the gain in throughput is 0."),
        ((4, 8), "At a concurrency of 4 and 8 these rounds do not decide; measure longer."),
        ((1, 2, 4, 8), "At a concurrency of 1, 2, 4 and 8 these rounds do not decide; measure longer."),
    ],
)
def test_only_a_load_whose_own_interval_does_not_contain_1_is_advised(wide, says):
    document = endpoints_document()
    loads = [at.model_copy(update={"gains": {"throughput": at.gains["throughput"]}}) for at in document.loads[:4]]
    loads = tuple(_widened(at) if at.load in wide else at for at in loads)
    line = next(recommendation(document.model_copy(update={"loads": loads})))
    assert says in line
    assert ("Use pruning at a concurrency of 1" in line) == (1 not in wide)
    assert "The gain is 1 at a concurrency of 5." in line


@pytest.mark.parametrize("arm", ARMS)
def test_nothing_is_advised_from_a_study_in_which_a_server_failed(arm):
    asked = study(concurrency=(1, 2), rounds=2)
    segments = [
        segment_with(asked, 4 * round + 2 * place + number, own, load, (1.0, 2.0)[number], round=round)
        for round in range(2)
        for place, load in enumerate(asked.loads)
        for number, own in enumerate(ARMS)
    ]
    log = asked_of(asked, segments)
    assert next(recommendation(document_of(asked, log))).startswith("Use pruning at a concurrency of 1 and 2")
    number = ARMS.index(arm)
    log.requests[number][7] = log.requests[number][7].model_copy(update={"error": "it says in its stream: no memory"})
    document = document_of(asked, log)
    (line,) = recommendation(document)
    words = f"1 of 80 requests to the {arm} server failed, warm-up included, most often: it says in its stream: no"
    assert line.startswith(f"Nothing is advised, because a server failed: {words}")
    assert document.break_even == ()
    page = report(document)
    assert "Use " not in str(page) and "Where pruning pays" not in str(page)
    assert page.confidence[0].level == "low"
    old = document.model_copy(update={"doubts": ()})
    assert [*recommendation(old)] == ["Nothing is advised, because a server failed: 1 request failed."]


def test_questions_that_a_server_did_not_answer_take_away_the_advice():
    doubt = Doubt(cell=None, kind="unanswered questions", sentence="s", next_step="n", found=1, threshold=0)
    document = endpoints_document().model_copy(update={"doubts": (doubt,)})
    assert [*recommendation(document)] == ["Nothing is advised, because a server failed: s."]


def test_a_load_without_a_gain_is_not_promised():
    document = endpoints_document()
    first, *others = (at.model_copy(update={"gains": {}}) for at in document.loads)
    first = first.model_copy(update={"gains": document.loads[0].gains})
    assert next(recommendation(document.model_copy(update={"loads": (first, *others), "break_even": ()}))).startswith(
        "Use pruning at a concurrency of 1: the gain in goodput is "
    )
    nothing = document.model_copy(update={"loads": tuple(others), "break_even": ()})
    assert "no concurrency has two rounds with a gain in throughput" in next(recommendation(nothing))
