import tempfile

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.targets import require_writable


def test_a_directory_that_can_be_written_stays_as_it_was(tmp_path):
    (tmp_path / "report.html").write_text("old")
    require_writable(tmp_path, ("report.html", "new.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    with pytest.raises(
        StoreError, match=r"cannot write .*: No space left on device; free some space, then run the same command again"
    ):
        require_writable(tmp_path, ())
