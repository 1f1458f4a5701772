"""Files are written completely or not at all."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.writing import append_line, require_regular, require_writable, write_whole


def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    write_whole(path, "first")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*file: No space left on device; free some space"):
        write_whole(path, "second")
    assert [(one.name, one.read_text()) for one in path.parent.iterdir()] == [("file", "first")]


def test_a_line_after_one_that_was_cut_off_is_a_line_of_its_own(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    append_line(path, b"three")
    append_line(path, b"four")
    assert path.read_bytes() == b"one\ntw\nthree\nfour\n"


def test_what_is_no_file_is_named(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name, says in {
        "pipe": "is a pipe",
        ".": "is a directory",
        "loop": "Too many levels",
        "x" * 300: "too long",
    }.items():
        with pytest.raises(StoreError, match=says):
            require_regular(tmp_path / name)
    with pytest.raises(StoreError, match="is a device"):
        write_whole(Path("/dev/full"), "text")
    require_regular(tmp_path / "missing")


def test_a_directory_that_can_be_written_stays_as_it_was(tmp_path):
    (tmp_path / "report.html").write_text("old")
    require_writable(tmp_path, ("report.html", "new.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_name_that_something_else_has_is_refused(tmp_path, make):
    make(tmp_path / "trace.json")
    with pytest.raises(StoreError, match=r"trace\.json is .*, not a regular file; move it, or choose another --out"):
        require_writable(tmp_path, ("report.html", "trace.json"))


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StoreError, match=r"cannot write .*: No space left on device; free some space"):
        require_writable(tmp_path, ())
