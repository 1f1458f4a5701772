"""Which versions of the format are read."""

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.record import VERSION
from trio_profile.records.versions import is_newer_minor, is_older


@pytest.mark.parametrize(
    ("version", "newer", "older"),
    [(1, False, True), ("1", False, True), ("1.1", False, True), (VERSION, False, False), ("1.10", True, False)],
)
def test_minor_versions_are_compared_as_numbers(version, newer, older):
    assert (is_newer_minor(version), is_older(version)) == (newer, older)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (2, f"format version 2 is newer than {VERSION}: upgrade trio-profile"),
        ("99.0", "newer than"),
        (0, "format version 0 is unknown"),
        (None, "is no format version"),
        (True, "is no format version"),
        (1.1, "is no format version"),
        ("1.1.1", "is no format version"),
        ("one", "is no format version"),
        (-1, "is no format version"),
        ("1" * 5000, "is no format version"),
        ([1], "is no format version"),
    ],
)
def test_other_major_versions_and_what_is_no_version_are_refused(version, says):
    with pytest.raises(StoreError, match=says) as caught:
        is_newer_minor(version)
    assert len(str(caught.value)) < 200
