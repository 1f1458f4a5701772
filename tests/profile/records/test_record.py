"""Which versions of the format are read."""

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.record import VERSION, is_newer_minor


def test_minor_versions_are_compared_as_numbers():
    for version, newer in ((VERSION, False), ("2.4", True), ("2.10", True)):
        assert is_newer_minor(version) == newer


def test_other_major_versions_and_what_is_no_version_are_refused():
    for versions, says in (
        (("3.0", "99.0"), f"is newer than {VERSION}: upgrade trio-profile"),
        (("1.3",), f"is older than {VERSION}, and cannot be read: measure again"),
        ((None, True, 2, 2.0, "2", "2.0.1", "one", -1, "2" * 5000, [2]), "is no format version"),
    ):
        for version in versions:
            with pytest.raises(StoreError, match=says) as caught:
                is_newer_minor(version)
            assert len(str(caught.value)) < 200
