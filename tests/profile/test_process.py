"""What a process does for its measurements, seen from fresh processes."""

import os
import subprocess
import sys

import pytest

from trio_profile import process

UNSET = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "GOMP_", "MALLOC_"))}
POLICY = "from trio_profile.inputs.environment import collect; print(collect().wait_policy, collect().allocator)"


def printed(code: str, **variables: str) -> str:
    """What a fresh process with two threads prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**UNSET, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_threads_sleep_soon_and_memory_is_kept_after_the_preparation():
    found = printed(f"from trio_profile import process; process.prepare(); {POLICY}")
    assert found.startswith("brief")
    assert found.endswith("keeps memory") or not process._has_glibc()


@pytest.mark.slow
def test_torch_that_was_imported_before_spins_and_the_environment_says_so():
    found = printed(f"import torch; from trio_profile import process; process.prepare(); {POLICY}")
    assert found.startswith("active")


@pytest.mark.slow
def test_a_variable_of_the_user_stays():
    code = f"from trio_profile import process; process.prepare(); {POLICY}"
    assert printed(code, OMP_WAIT_POLICY="ACTIVE").startswith("active")
    assert printed("import torch; " + code, OMP_WAIT_POLICY="passive").startswith("passive")


def test_the_policy_of_an_environment():
    for environment, policy in (
        ({}, "active"),
        ({"OMP_WAIT_POLICY": "Passive"}, "passive"),
        ({"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "0"}, "active"),
        ({"GOMP_SPINCOUNT": "2000", "OMP_WAIT_POLICY": "active"}, "brief"),
        ({"GOMP_SPINCOUNT": "300k", "OMP_WAIT_POLICY": "passive"}, "active"),
        ({"GOMP_SPINCOUNT": "9" * 5000}, "active"),
    ):
        assert process._policy_of(environment) == policy
        assert process.wait_variables(environment) == ({} if environment else process.BRIEF_WAIT)
    assert process._policy_of(process.BRIEF_WAIT) == "brief"


def test_a_worker_keeps_what_the_user_has_set():
    added = process.worker_variables({"OMP_WAIT_POLICY": "active", "MALLOC_TRIM_THRESHOLD_": "1"})
    assert added == process._CUDNN_LAST


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_settings_of_malloc_by_the_user_stay(name: str):
    code = (
        "from trio_profile import process; process.prepare(); print(process.allocator(), process.allocator(fresh=True))"
    )
    assert "keeps memory" not in printed(code, **{name: "1000000"})


def test_another_allocator_is_known_by_the_name_of_its_library(monkeypatch: pytest.MonkeyPatch):
    for library, name in (("/usr/lib/libjemalloc.so.2", "jemalloc"), ("/x/jemalloc/libc.so", "")):
        line = f"7f00-7f01 r-xp 0 00:00 1    {library}\n"
        monkeypatch.setattr(process.Path, "read_text", lambda *_, line=line, **__: line)
        assert process._replaced() == name


@pytest.mark.skipif(not process._has_glibc(), reason="needs glibc")
def test_kept_memory_is_not_fetched_again():
    code = """
import resource, sys
from trio_profile import process
if sys.argv[1:] == ["keep"]: process.prepare()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(8 << 20) for _ in range(3)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(); print(faults())
"""
    prefix = "import sys; sys.argv = ['', {!r}]\n"
    assert int(printed(prefix.format("keep") + code)) < 100
    assert int(printed(prefix.format("") + code)) > 1000


def test_flash_attention_comes_before_cudnn_unless_the_user_decides():
    name = "TORCH_CUDNN_SDPA_DEPRIORITIZED"
    code = f"import os; from trio_profile import process; process.prepare(); print(os.environ['{name}'])"
    assert (printed(code).strip(), printed(code, **{name: "0"}).strip()) == ("1", "0")
    assert process.worker_variables({}).get(name) == "1" and name not in process.worker_variables({name: "0"})
