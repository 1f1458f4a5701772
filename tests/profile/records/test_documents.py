"""Documents that are kept in files."""

import json
from pathlib import Path

import pytest

from tests.profile.examples import environment, study
from tests.profile.stand_in import Weighed
from trio_profile.errors import StoreError
from trio_profile.records.documents import read_document, write_document
from trio_profile.records.record import VERSION

WEIGHED = Weighed(environment=environment(), study=study())


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    write_document(tmp_path / "weighed.json", WEIGHED)
    return tmp_path / "weighed.json"


def change(path: Path, **fields) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_what_was_written_is_read(kept):
    found = read_document(kept, Weighed)
    assert found == WEIGHED
    assert list(json.loads(kept.read_text()))[:5] == ["format", "version", "sessions", "environment", "study"]


def test_fields_of_another_version_are_ignored(kept):
    change(kept, version="2.99", further=1, parts=[{"weights": 3, "further": 2}, {"weights": 4}])
    assert read_document(kept, Weighed).parts == WEIGHED.parts


def test_another_document_is_refused_in_one_line(kept):
    for fields, says in (
        ({"parts": 3}, "parts: "),
        ({"format": "other"}, "format: input should be 'trio-profile'"),
        ({"version": "3.0"}, f"format version 3.0 is newer than {VERSION}: upgrade trio-profile"),
    ):
        write_document(kept, WEIGHED)
        change(kept, **fields)
        with pytest.raises(StoreError, match=says) as caught:
            read_document(kept, Weighed)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"[" * 100_000, b"[]", b'{"version": ' + b"9" * 5000 + b"}", b"\xff\xfe"])
def test_what_is_no_document_is_refused_in_one_line(kept, text):
    kept.write_bytes(text)
    with pytest.raises(StoreError, match=r"weighed\.json") as caught:
        read_document(kept, Weighed)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
