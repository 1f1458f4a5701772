"""One process at a time writes to a directory."""

import fcntl
import os
import re
import socket
import subprocess
import sys

import pytest

from trio_profile.errors import StoreError
from trio_profile.records.lock import HOLDER, LOCK, lock_descriptors, lock_directory


def test_the_holder_of_a_lock_is_named_to_the_second(tmp_path):
    with lock_directory(tmp_path), pytest.raises(StoreError) as caught, lock_directory(tmp_path):
        pass
    who = rf"process {os.getpid()} on {re.escape(socket.gethostname())}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    expected = rf"another process is writing to .* \({who}\): wait for it to end"
    assert re.fullmatch(expected, str(caught.value))


def test_what_a_killed_process_left_behind_locks_nothing(tmp_path):
    (tmp_path / LOCK).write_text("")
    (tmp_path / HOLDER).write_text('{"host": "h", "pid": 1, "since": "2026-01-01T00:00:00Z"}')
    with lock_directory(tmp_path):
        assert f"process {os.getpid()} on " in (tmp_path / HOLDER).read_text()


def test_a_lock_ends_when_the_last_process_that_inherited_it_has_ended(tmp_path):
    with lock_directory(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=lock_descriptors())
    with child:
        with pytest.raises(StoreError, match="another process is writing to"), lock_directory(tmp_path):
            pass
        child.communicate(b"\n")
    with lock_directory(tmp_path):
        assert len(lock_descriptors()) == 1
    assert lock_descriptors() == ()


def test_a_file_that_was_removed_before_it_was_locked_is_no_lock(tmp_path, monkeypatch):
    """Another process may remove a new, empty directory between our opening and our locking."""
    flock = fcntl.flock

    def removed_first(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        (tmp_path / LOCK).unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with lock_directory(tmp_path), pytest.raises(StoreError, match="is writing"), lock_directory(tmp_path):
        pass
