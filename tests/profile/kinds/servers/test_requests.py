"""requests.jsonl: what is kept, what counts, and what is refused."""

import json

import pytest

from tests.profile import examples
from tests.profile.kinds.servers.fake_servers import study
from tests.profile.kinds.servers.kept import segment_with
from trio_profile.kinds.servers.requests import PicturesUsed, RequestStore, ServerFacts, request_rows
from trio_profile.kinds.servers.study import Load
from trio_profile.records.files import REQUESTS

LOAD = Load(loop="closed", value=2)


def session(name: str):
    return examples.session(id=name)


def stored(directory, *, arms=("dense", "pruned"), name: str = "first") -> RequestStore:
    """A store in which a session has measured these arms once."""
    store = RequestStore(directory, study(), session(name))
    store.start()
    store.append(ServerFacts(arm="dense", model="fake"))
    for arm in arms:
        segment, requests = segment_with(study(), store.contents.next_segment, arm, LOAD, 2.0)
        store.append(*requests, segment)
    return store


def test_each_request_of_a_finished_segment_is_a_row(tmp_path):
    store = stored(tmp_path)
    store.append(store.contents.requests[1][0].model_copy(update={"segment": 2}))  # of a segment that was broken off
    rows = request_rows(tmp_path)
    assert [row["arm"] for row in rows] == ["dense"] * 20 + ["pruned"] * 20
    assert (rows[0]["loop"], rows[0]["load"], rows[0]["ttft_ms"], rows[0]["total_ms"]) == ("closed", 2.0, 250.0, 500.0)


def test_what_is_written_is_read_again(tmp_path):
    before = stored(tmp_path).contents
    after = RequestStore(tmp_path, study(), session("second")).contents
    assert after == before
    assert after.next_segment == 2
    assert [segment.session for segment in after.segments] == ["first", "first"]
    (pair,) = after.pairs()
    assert [segment.arm for segment in pair] == ["dense", "pruned"]


@pytest.mark.parametrize("fields", [{"test": "cache", "repeated": True}, {"test": "pruning", "repeated": False}])
def test_a_segment_of_an_earlier_version_that_repeated_a_picture_does_not_count(tmp_path, fields):
    stored(tmp_path)
    path = tmp_path / REQUESTS
    *lines, last = path.read_text().splitlines()
    repeated = {**json.loads(last), "number": 7, **fields}
    path.write_text("\n".join([*lines, last, json.dumps(repeated)]) + "\n")
    contents = RequestStore(tmp_path, study(), session("second")).contents
    assert [segment.number for _, segment in contents.pairs()] == [1 if fields["repeated"] else 7]


def test_a_store_that_is_only_opened_writes_nothing(tmp_path):
    RequestStore(tmp_path, study(), session("first"))
    assert not (tmp_path / REQUESTS).exists()


def test_two_segments_of_two_sessions_are_no_pair(tmp_path):
    stored(tmp_path, arms=("dense",))
    later = stored(tmp_path, arms=("pruned",), name="second")
    assert later.contents.pairs() == []
    assert [one.id for one in later.contents.sessions] == ["first", "second"]


def test_requests_without_their_segment_do_not_count(tmp_path):
    store = stored(tmp_path, arms=("dense",))
    store.append(*segment_with(study(), 1, "pruned", LOAD, 2.0)[1])
    found = RequestStore(tmp_path, study(), session("second")).contents
    assert len(found.segments) == 1 and found.pairs() == [] and found.next_segment == 2


def test_pictures_of_an_interrupted_segment_are_used_up(tmp_path):
    stored(tmp_path).append(PicturesUsed(next=99))
    assert RequestStore(tmp_path, study(), session("second")).contents.next_picture == 99
