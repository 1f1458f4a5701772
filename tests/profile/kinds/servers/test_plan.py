"""The plan of `endpoints`: its loads, its orders, and what it sends at most."""

from collections import Counter

import pytest

from tests.profile.kinds.servers.fake_servers import study
from trio_profile.errors import StudyError
from trio_profile.kinds.servers.plan import CONCURRENCY, limits_of, most_requests, planned_pairs, prepare, preview
from trio_profile.kinds.servers.study import EndpointStudy, Load, base_of


def test_a_study_without_loads_has_those_of_the_closed_loop():
    given = {"dense": "http://a", "pruned": "http://b"}
    assert prepare(EndpointStudy(**given)).concurrency == CONCURRENCY
    assert prepare(EndpointStudy(**given, rates=(2.0,))).loads == (Load(loop="open", value=2),)
    both = prepare(EndpointStudy(**given, rates=(2.0, 1.0), concurrency=(4, 1)))
    assert [load.name for load in both.loads] == [
        *("concurrency 1", "concurrency 4", "1 requests a second", "2 requests a second")
    ]
    with pytest.raises(StudyError, match="there is no load"):
        prepare(EndpointStudy(**given, concurrency=()))


def test_a_slash_at_the_end_does_not_make_another_server():
    with pytest.raises(StudyError, match="dense and pruned are the same server"):
        prepare(EndpointStudy(dense="http://a/", pruned="http://a/v1"))
    assert prepare(EndpointStudy(dense="http://a/", pruned="http://b/")).pruned == "http://b"


@pytest.mark.parametrize("rounds", [2, 4, 5])
def test_each_round_has_each_load_once_and_dense_comes_first_in_half_of_the_rounds(rounds):
    pairs = list(planned_pairs(study(rounds=rounds, concurrency=(1, 2, 4), rates=(1.0,))))
    for number in range(rounds):
        loads = [pair.load for pair in pairs if pair.round == number]
        assert Counter(loads) == Counter(study(concurrency=(1, 2, 4), rates=(1.0,)).loads)
    for load in {pair.load for pair in pairs}:
        firsts = Counter(pair.arms[0] for pair in pairs if pair.load == load)
        assert abs(firsts["dense"] - firsts["pruned"]) <= rounds % 2


def test_a_dry_run_says_how_much_is_sent_at_most():
    asked = study(concurrency=(1, 8), rounds=2, requests=10, segment_seconds=5)
    found = preview(asked)
    limits = limits_of(asked)
    # a warm-up of six windows, the measured requests, and those that are under way at the end
    assert [limits.most(load) for load in asked.loads] == [24 + 10 + 1, 48 + 32 + 8]
    assert found.requests == most_requests(asked) == 2 * 2 * (35 + 88)
    assert (found.segments, found.seconds) == (8, 80)


def test_a_field_that_the_study_sets_itself_is_refused():
    for name in ("model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature"):
        with pytest.raises(StudyError, match=f"the study sets {name} itself; leave it out"):
            study(body=f'{{"{name}": 1}}')


def test_a_load_with_too_many_pictures_is_refused():
    with pytest.raises(StudyError, match=r"10000 requests a second needs \d+ pictures or frames in a segment, and"):
        study(concurrency=(), rates=(10_000.0,))
    assert study(concurrency=(1024,)).loads
    with pytest.raises(StudyError, match=r"200 requests a second needs \d+ pictures or frames .* --frames"):
        study(concurrency=(), rates=(200.0,), frames=64)


def test_a_rate_at_which_nothing_may_arrive_is_refused():
    with pytest.raises(StudyError, match=r"0.01 requests a second: in 60 seconds about 0.6 .* give --seconds 1000"):
        study(concurrency=(), rates=(0.01,))
    assert study(concurrency=(), rates=(0.01,), segment_seconds=1000).loads


def test_an_address_gets_a_version():
    for url, base in {
        "http://host": "http://host/v1",
        "http://host:8000/": "http://host:8000/v1",
        "http://host/v1/": "http://host/v1",
        "http://host/v3": "http://host/v3",
        "http://host/models": "http://host/models/v1",
    }.items():
        assert base_of(url) == base
