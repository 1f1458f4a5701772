"""Changed documents of every kind, read by every verb that reads them. The slow test reads many."""

import tempfile
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.documents import KINDS, Stored, cases
from tests.fuzz.in_process import ended

every_kind = pytest.mark.parametrize("kind", KINDS)
few, many = (
    settings(max_examples=examples, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False)
    for examples in (4, 300)
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("stored"))


def read_or_refuse(kind: str, stored: Stored, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place, chdir(place):
        case = data.draw(cases(stored, kind, Path(place)))
        assert ended(case)[1] == [], case.arguments


@few
@given(data=st.data())
@every_kind
def test_a_changed_document_is_read_or_refused_in_one_line(kind: str, stored: Stored, data: st.DataObject):
    read_or_refuse(kind, stored, data)


@many
@given(data=st.data())
@every_kind
@pytest.mark.slow
def test_many_changed_documents_are_read_or_refused(kind: str, stored: Stored, data: st.DataObject):
    read_or_refuse(kind, stored, data)
