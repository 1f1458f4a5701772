"""Files are written completely or not at all."""

import errno
import os
from pathlib import Path

import pytest

from tests.profile.examples import session
from trio_profile.errors import StoreError
from trio_profile.records.writing import append_line, record_writer, require_regular, write_whole


def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    write_whole(path, "first")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StoreError, match=r"cannot write .*file: No space left on device; free some space, then run the same command"
    ):
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


def test_an_error_of_the_body_is_no_error_of_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="model"), record_writer(tmp_path / "lines") as write:
        write(session())
        raise FileNotFoundError(errno.ENOENT, "No such file", "model")
    assert (tmp_path / "lines").read_bytes().count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_record_that_does_not_fit_is_an_error_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.writing.require_regular", lambda _: None)
    with (
        pytest.raises(StoreError, match=r"cannot write /dev/full: "),
        record_writer(tmp_path.__class__("/dev/full")) as write,
    ):
        write(session())
