"""The document of an unfinished study of servers."""

import pytest

from tests.profile.documents import segment_with
from tests.profile.kinds.servers.fake_servers import study
from trio_profile.errors import MeasurementError
from trio_profile.inputs import host
from trio_profile.kinds.servers.report import report
from trio_profile.kinds.servers.requests import RequestStore
from trio_profile.kinds.servers.run import document_so_far
from trio_profile.kinds.servers.study import EndpointStudy, Load

ONE = Load(loop="closed", value=1)


def kept(directory, *segments: dict) -> EndpointStudy:
    """A study whose directory holds some segments."""
    asked = study(concurrency=(1,), rounds=2, check_cache=True)
    store = RequestStore(directory, asked, host.session(host.without_torch()))
    store.begin()
    for number, fields in enumerate(segments):
        store.add_segment(*segment_with(asked, number, fields.pop("arm"), ONE, 2.0, **fields))
    return asked


def test_finished_pairs_are_in_the_document_and_half_a_pair_is_not(tmp_path):
    asked = kept(tmp_path, {"arm": "dense"}, {"arm": "pruned"}, {"arm": "dense", "round": 1})
    assert document_so_far(asked, tmp_path).loads[0].rounds == 1


def test_pairs_that_test_the_cache_alone_have_a_report(tmp_path):
    asked = kept(tmp_path, *({"arm": "dense", "test": "cache", "repeated": again} for again in (False, True)))
    document = document_so_far(asked, tmp_path)
    assert document.loads == () and report(document).pages


def test_without_a_finished_pair_there_is_no_document(tmp_path):
    with pytest.raises(MeasurementError, match="no pair of segments is finished"):
        document_so_far(kept(tmp_path, {"arm": "dense"}), tmp_path)
