"""Each doubt about a study of servers, on segments with one fault."""

from typing import Any

import pytest

from tests.profile.documents import asked_of, segment_with
from tests.profile.kinds.servers.fake_servers import study
from trio_profile.analysis.doubt import Doubt
from trio_profile.kinds.servers.doubts import doubts_about
from trio_profile.kinds.servers.requests import ARMS, Arm
from trio_profile.kinds.servers.study import Load
from trio_profile.kinds.servers.summary import document_of
from trio_profile.records.estimate import Gain

LOAD = Load(loop="closed", value=4)
RATE = Load(loop="open", value=2)


def doubts(cache: dict[Arm, Gain] | None = None, *, many: int = 5, **faults: Any) -> list[Doubt]:
    """The doubts about two rounds whose pruned segments have faults, apart from that of the few requests."""
    asked = study(concurrency=(4,), rounds=2)
    segments = []
    for number in range(2 * 2):
        arm = ARMS[number % 2]
        given = faults if arm == "pruned" else {}
        segments.append(segment_with(asked, number, arm, LOAD, 2.0, round=number // 2, **given))
    found = doubts_about(asked, asked_of(asked, segments), cache or {})
    return [one for one in found if one.kind != "few requests" or many == 0]


def test_a_quiet_study_is_not_doubted():
    assert doubts() == []


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        ({"cpu_share": 0.9}, "client saturated", "at concurrency 4 the client uses 90 % of a CPU"),
        ({"lag_ms": 50.0, "cpu_share": 0.026}, "queueing at the client", "event loop of the client is late by 50.0 ms"),
        ({"lag_ms": 50.0, "cpu_share": 0.026}, "queueing at the client", "It uses 2.6 % of a CPU, so other work"),
        ({"lag_ms": 50.0, "cpu_share": 0.9}, "client saturated", "at concurrency 4 the client uses 90 % of a CPU"),
        (
            {"sent_ms": 9_999.0},
            "queueing at the client",
            "requests leave the client late, by 9",
        ),
        ({"output_tokens": 8}, "unequal answers", "an answer has 16 tokens dense and 8 pruned, on average"),
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
    assert "20 answered requests, so its 99th percentile" in found.sentence


def test_a_repeated_picture_that_is_faster_shows_a_cache():
    fast = Gain(value=2.0, ci95=(1.8, 2.2), samples=4)
    (found,) = doubts({"dense": fast})
    assert found.kind == "prefix cache" and "answers a repeated picture 2.0× [1.8, 2.2] faster" in found.sentence
    assert doubts({"dense": Gain(value=1.02, ci95=(0.95, 1.1), samples=4)}) == []


def test_few_failures_are_named_but_are_not_serious():
    """Ten segments of twenty requests, one of which failed."""
    asked = study(concurrency=(4,), rounds=10)
    segments = [segment_with(asked, number, ARMS[number % 2], LOAD, 2.0, round=number // 2) for number in range(20)]
    requests = segments[0][1]
    requests[0] = requests[0].model_copy(update={"error": "HTTP 500: once", "first_ms": None})
    found = {one.kind: one.sentence for one in doubts_about(asked, asked_of(asked, segments), {})}
    assert found["failures left out"].startswith("1 of 200 requests to the dense server failed, most often: HTTP 500")
    assert "failed requests" not in found


def test_equal_prompts_at_the_opening_are_doubted_though_the_means_differ():
    """The means are over different pictures. They differ by a token, and nothing was pruned."""
    asked = study(concurrency=(4,), rounds=2)
    segments = [
        segment_with(asked, number, ARMS[number % 2], LOAD, 2.0, round=number // 2, prompt_tokens=74 - number % 2)
        for number in range(4)
    ]
    held = asked_of(asked, segments)
    assert not [one for one in doubts_about(asked, held, {}) if one.kind == "prompt length"]
    held.servers = [facts.model_copy(update={"prompt_tokens": 74}) for facts in held.servers]
    (found,) = (one for one in doubts_about(asked, held, {}) if one.kind == "prompt length")
    assert "the pruned server reports 74 prompt tokens, and the dense one 74" in found.sentence


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (74, "nothing was pruned, or the server reports the prompt before pruning"),
        (None, "a server does not report the tokens of its prompts"),
    ],
)
def test_means_of_prompts_count_if_a_server_did_not_report_the_first_one(tokens, says):
    asked = study(concurrency=(4,), rounds=2)
    held = asked_of(
        asked, [segment_with(asked, n, ARMS[n % 2], LOAD, 2.0, round=n // 2, prompt_tokens=tokens) for n in range(4)]
    )
    held.servers = [facts.model_copy(update={"prompt_tokens": None}) for facts in held.servers]
    (found,) = (one for one in doubts_about(asked, held, {}) if one.kind == "prompt length")
    assert says in found.sentence


def test_larger_pictures_in_the_pruned_requests_are_no_doubt_if_the_opening_was_pruned():
    assert "prompt length" not in {one.kind for one in doubts(prompt_tokens=90)}


def test_a_study_with_tests_of_the_cache_alone_says_nothing_about_prompts():
    asked = study(concurrency=(4,), rounds=2, check_cache=True)
    segments = [
        segment_with(asked, number, "dense", LOAD, 2.0, test="cache", repeated=number == 1) for number in range(2)
    ]
    assert [one.kind for one in document_of(asked, asked_of(asked, segments)).doubts] == ["unfinished"]


def test_a_server_that_answers_less_than_arrives_is_overloaded():
    """Two requests arrive each second. The pruned server answers one each second, and goes on after the end."""
    asked = study(concurrency=(), rates=(2.0,), rounds=2)
    segments = []
    for number in range(4):
        segment, requests = segment_with(asked, number, ARMS[number % 2], RATE, 2.0, round=number // 2)
        if segment.arm == "pruned":
            ends = [one.model_copy(update={"end_ms": 2 * one.end_ms}) for one in requests]
            requests = ends
        segments.append((segment, requests))
    (found,) = (one for one in doubts_about(asked, asked_of(asked, segments), {}) if one.kind == "overload")
    assert found.sentence.startswith("at 2 requests a second the pruned server answers 50 % of what arrives")


def test_pairs_that_are_missing_are_said():
    asked = study(concurrency=(4, 8), rounds=2)
    segments = [segment_with(asked, number, ARMS[number], LOAD, 2.0) for number in range(2)]
    document = document_of(asked, asked_of(asked, segments))
    (found,) = (one for one in document.doubts if one.kind == "unfinished")
    assert document.pairs_left == 3 and found.sentence == "3 of 4 pairs of segments are not measured yet"
