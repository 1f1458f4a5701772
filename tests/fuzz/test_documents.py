"""Changed documents of every kind, read by every verb that reads them."""

import tempfile
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.documents import KINDS, Stored, cases
from tests.fuzz.in_process import ended

EXAMPLES = 40


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("stored"))


@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_was_changed_is_read_or_refused_in_one_line(kind: str, stored: Stored, data: st.DataObject):
    with tempfile.TemporaryDirectory() as place, chdir(place):
        case = data.draw(cases(stored, kind, Path(place)))
        assert ended(case)[1] == [], case.arguments
