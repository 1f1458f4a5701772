"""Each doubt about a study of servers, on segments with one fault."""

import pytest

from tests.profile.examples import session
from tests.profile.kinds.servers.fake_servers import study
from tests.profile.kinds.servers.kept import log_of
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.servers.doubts import doubts_about
from trio_profile.kinds.servers.report import report
from trio_profile.kinds.servers.requests import RequestLog
from trio_profile.kinds.servers.summary import document_of
from trio_profile.records.schema import FileDigest

ASKED = study(concurrency=(4,), rounds=2)


def doubts(log: RequestLog) -> dict[str, Doubt]:
    """The doubts by their kind, apart from that of the few requests, which all these segments have."""
    kinds = {doubt.kind: doubt for doubt in doubts_about(log)}
    assert "0 answered requests; of fewer than 100 the 99th percentile" in kinds.pop("few requests").sentence
    return kinds


def test_a_quiet_study_is_not_doubted():
    assert doubts(log_of(ASKED)) == {}


def test_transparent_pictures_of_questions_are_doubted():
    log, digest = log_of(ASKED), FileDigest(bytes=9, sha256="a", transparent=2)
    log.sessions.append(session(inputs={"questions/pictures": digest}))
    assert doubts(log)["transparent"].sentence.startswith("2 pictures have transparent parts")


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        ({"cpu_share": 0.9}, "client saturated", "at concurrency 4 the client uses 90 % of a CPU"),
        ({"lag_ms": 50.0}, "queueing at the client", "the client is late by 50.0 ms (99th percentile), 20.0 % of the"),
        ({"sent_ms": 9_999.0}, "queueing at the client", "the client is late by 9"),
        ({"output_tokens": 8}, "unequal answers", "an answer has 16 tokens dense and 8 pruned, on average"),
        ({"cached_tokens": 20}, "prefix cache", "the pruned server took 76.9 % of the prompt tokens from its"),
        ({"pieces": 1}, "one piece", "100.0 % of the answers of the pruned server came in one piece"),
        ({"steady": False}, "unsteady warm-up", "in 50.0 % of the segments"),
        ({"error": "HTTP 503", "first_ms": None}, "failed requests", "40 of 40 requests to the pruned server failed"),
        (
            {"odd_counts": "40 output tokens, where 4 were asked for", "output_tokens": None},
            "odd numbers of tokens",
            "in 40 of 40 requests the pruned server reports numbers of tokens that cannot be, and that are not used, "
            "most often: 40 output tokens, where 4 were asked for",
        ),
        (
            {"finish": "length", "output_tokens": 15},
            "limited answers",
            "100.0 % of the answers of the pruned server reach its limit (finish_reason length) with fewer tokens than "
            "the 16 of the other server",
        ),
    ],
)
def test_a_fault_is_doubted_with_its_number_and_a_next_step(faults, kind, says):
    doubt = doubts(log_of(ASKED, **faults))[kind]
    assert says in doubt.sentence
    assert doubt.next_step and doubt.cell is None


def test_one_failure_is_a_doubt_and_its_tokens_count_for_nothing():
    log = log_of(ASKED)
    request = log.requests[1][3]
    log.requests[1][3] = request.model_copy(update={"error": "HTTP 503", "output_tokens": 1, "prompt_tokens": 1})
    doubt, few = doubts_about(log)
    assert doubt.sentence.startswith(
        "1 of 40 requests to the pruned server failed, warm-up included, most often: HTTP 503"
    )
    assert few.kind == "few requests"
    (at,) = document_of(ASKED, log).loads
    assert (at.pruned.output_tokens, at.pruned.prompt_tokens) == (16, 26)


def test_a_failure_in_the_warm_up_is_a_doubt():
    log = log_of(ASKED)
    log.requests[1].append(log.requests[1][0].model_copy(update={"measured": False, "error": "HTTP 503"}))
    doubt = next(doubts_about(log))
    assert doubt.sentence.startswith("1 of 41 requests to the pruned server failed, warm-up included")


def test_answers_that_end_alike_are_no_doubt():
    assert doubts(log_of(ASKED, finish="length")) == {}  # as many as the dense server's
    assert "limited answers" not in doubts(log_of(ASKED, finish="stop", output_tokens=8))


@pytest.mark.parametrize(
    ("opening", "tokens", "says"),
    [
        (26, 90, ""),  # larger pictures in the pruned requests are no doubt
        (74, 73, "reports 74 prompt tokens, and the dense one 74"),  # the means are over different pictures
        (None, 74, "nothing was pruned, or the server reports the prompt before pruning"),
        (None, None, "a server does not report the tokens of its prompts"),
    ],
)
def test_the_prompts_that_open_a_session_say_whether_anything_was_pruned(opening, tokens, says):
    log = log_of(ASKED, prompt_tokens=tokens)
    log.servers[1] = log.servers[1].model_copy(update={"prompt_tokens": opening})
    found = doubts(log)
    assert says in found["prompt length"].sentence if says else found == {}


def test_a_server_that_answers_less_than_arrives_is_overloaded():
    """Two requests arrive each second. The pruned server answers one each second, and goes on after the end."""
    asked = study(concurrency=(), rates=(2.0,), rounds=2)
    log = log_of(asked)
    for number in (1, 3):
        log.requests[number] = [one.model_copy(update={"end_ms": 2 * one.end_ms}) for one in log.requests[number]]
    sentence = doubts(log)["overload"].sentence
    assert sentence.startswith("at 2 requests a second the pruned server answers 50 % of what arrives")


def test_pairs_that_are_missing_are_said():
    asked = study(concurrency=(4, 8), rounds=2)
    log = log_of(asked)
    del log.segments[2:]
    document = document_of(asked, log)
    assert document.pairs_left == 3
    assert report(document).banner.startswith("This study is unfinished. Not measured yet: 3 of 4 segment pairs.")
