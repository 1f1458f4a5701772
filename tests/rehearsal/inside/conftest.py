"""For the tests that run on the pretended device. Elsewhere nothing is collected here."""

import gc
import os

import pytest

from tests.profile.conftest import checkpoint, without_fvcore  # noqa: F401

collect_ignore_glob = [] if "REHEARSAL_LIBRARY" in os.environ else ["test_*.py"]


@pytest.fixture(autouse=True)
def fresh_devices():
    """Each test begins on device 0 and leaves no tensor there."""
    from tests.rehearsal import cuda

    cuda._set_device(0)
    yield
    cuda._set_device(0)
    cuda._set_sync_debug_mode("default")
    gc.collect()
    cuda._empty_cache()
