"""Lines of a store."""

from pathlib import Path

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.log import LogReader


@pytest.mark.parametrize(
    "line",
    [b"{", b"\x00" * 50, b"[" * 100_000, b'{"record": "dense", "fastv_macs": ' + b"9" * 5000 + b"}", b"\xff", b"null"],
)
def test_a_line_that_is_no_record_is_refused_in_one_line(line):
    with pytest.raises(StoreError) as caught:
        LogReader(Path()).parse(line)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200
