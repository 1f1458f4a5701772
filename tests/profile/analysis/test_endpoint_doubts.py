"""Each doubt about a study of servers, on segments with one fault."""

from typing import Any

import pytest

from tests.profile.documents import asked_of, segment_with
from tests.profile.fake_servers import study
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.endpoint_doubts import doubts_about
from trio_profile.records.endpoint_study import Load
from trio_profile.records.estimate import Gain
from trio_profile.records.requests import ARMS, Arm

LOAD = Load(loop="closed", value=4)


def doubts(cache: dict[Arm, Gain] | None = None, *, many: int = 5, **faults: Any) -> list[Doubt]:
    """The doubts about two rounds whose pruned segments have faults, apart from that of the few requests."""
    asked = study()
    segments = []
    for number in range(2 * 2):
        arm = ARMS[number % 2]
        given = faults if arm == "pruned" else {}
        segments.append(segment_with(asked, number, arm, LOAD, 2.0, round=number // 2, **given))
    found = doubts_about(asked_of(asked, segments), cache or {})
    return [one for one in found if one.kind != "few requests" or many == 0]


def test_a_quiet_study_is_not_doubted():
    assert doubts() == []


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        ({"cpu_share": 0.9}, "client saturated", "at concurrency 4 the client uses 90 % of a CPU"),
        ({"lag_ms": 50.0}, "client saturated", "the event loop of the client is late by 50.0 ms"),
        (
            {"sent_ms": 9_999.0},
            "queueing at the client",
            "requests leave the client late, by 9",
        ),
        ({"output_tokens": 8}, "unequal answers", "an answer has 16 tokens dense and 8 pruned, on average"),
        ({"prompt_tokens": 74}, "prompt length", "nothing was pruned, or the server reports the prompt before pruning"),
        ({"prompt_tokens": None}, "prompt length", "a server does not report the tokens of its prompts"),
        (
            {"cached_tokens": 20},
            "prefix cache",
            "the pruned server took 76.9 % of the prompt tokens from its",
        ),
        ({"pieces": 1}, "one piece", "100.0 % of the answers of the pruned server came in one piece"),
        ({"steady": False}, "unsteady warm-up", "in 50.0 % of the segments"),
        (
            {"error": "HTTP 503: full", "first_ms": None},
            "failed requests",
            "40 of 40 requests to the pruned server failed, most often: HTTP 503: full",
        ),
    ],
)
def test_a_fault_is_doubted_with_its_number_and_a_next_step(faults, kind, says):
    found = next(one for one in doubts(**faults) if one.kind == kind)
    assert says in found.sentence
    assert found.next_step and found.cell is None


def test_few_requests_are_doubted_with_the_percentile_that_suffers():
    (found,) = (one for one in doubts(many=0) if one.kind == "few requests")
    assert "20 measured requests, so its 99th percentile" in found.sentence


def test_a_repeated_picture_that_is_faster_shows_a_cache():
    fast = Gain(value=2.0, ci95=(1.8, 2.2), samples=4)
    (found,) = doubts({"dense": fast})
    assert found.kind == "prefix cache" and "answers a repeated picture 2.0× [1.8, 2.2] faster" in found.sentence
    assert doubts({"dense": Gain(value=1.02, ci95=(0.95, 1.1), samples=4)}) == []
