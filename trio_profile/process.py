"""Prepare this process for measuring: how its threads wait, what it does with freed memory, which attention it runs.

This module needs the standard library only. Call `prepare` before torch is imported: the OpenMP runtime that torch
loads reads its variables once.
"""

import ctypes
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

BRIEF_WAIT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "0"}
"""The variables that let waiting threads spin briefly and then sleep: OpenMP's own, GNU's, and Intel's and LLVM's.

By default a thread of OpenMP spins for some milliseconds while it waits for work. On a busy machine it then takes the
CPU from the thread that it waits for. A thread that sleeps at once is slow on a quiet machine: to wake it takes longer
than a small operation. So a waiting thread checks for work 2,000 times, and then sleeps. docs/how-to/machine.md has the
measured times.
"""
_CUDNN_LAST = {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}
"""On Hopper torch prefers cuDNN's attention, which makes a new plan for every length of a cache. That takes seconds.
torch reads this variable at its first attention."""
_BRIEF = 10_000
"""A thread that looks no more often than this spins briefly."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT, _KEPT = 32 * 2**20, 2**31 - 1
"""In bytes. Blocks up to the first size come from memory that is kept, and free memory up to the second size is kept.
glibc allows no more."""
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(_LARGEST_KEPT), "MALLOC_TRIM_THRESHOLD_": str(_KEPT)}
"""The variables that set the same sizes in a new process."""
_OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


class _State:
    """The state of this process after `prepare`.

    is_prepared: whether it was called.
    policy: see `wait_policy`.
    keeps_memory: whether malloc keeps freed memory.
    """

    is_prepared = False
    policy = ""
    keeps_memory = False


def prepare() -> None:
    """Let waiting threads spin briefly and then sleep, let malloc keep its memory, and let cuDNN's attention come last.

    A second call changes nothing. If torch is imported already, its threads stay as they are. The processes that this
    one starts are prepared.
    """
    if _State.is_prepared:
        return
    added = wait_variables(os.environ)
    os.environ.update(_attention_variables(os.environ))
    _State.policy = _known_policy() if "torch" in sys.modules else _policy_of(os.environ | added)
    os.environ.update(added)
    _State.keeps_memory = _keep_memory()
    _State.is_prepared = True


def wait_policy(*, fresh: bool = False) -> str:
    """Return how OpenMP's threads wait, in this process or in a fresh one that calls `prepare`.

    `brief` (spin, then sleep), `passive` (sleep), `active` (spin). Empty if the environment does not tell, because a
    variable was set after this process had started.
    """
    if fresh:
        return _policy_of(os.environ | wait_variables(os.environ))
    return _State.policy if _State.is_prepared else _known_policy()


def wait_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to an environment, so that threads wait briefly. Empty if the user has set one."""
    return {} if any(name in environment for name in (*BRIEF_WAIT, "KMP_LIBRARY")) else dict(BRIEF_WAIT)


def worker_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that prepare a new process as `prepare` does, without a call of ours inside it.

    environment: that of the new process. Variables that the user has set stay as they are.
    """
    malloc = {} if _sets_malloc(environment) else _MALLOC
    return wait_variables(environment) | _attention_variables(environment) | malloc


def _attention_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to an environment, so that cuDNN's attention comes last. The user's own stay."""
    return {name: value for name, value in _CUDNN_LAST.items() if name not in environment}


def _known_policy() -> str:
    """Return the policy of a runtime that may have read its variables already; empty if it cannot be known."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # without Linux's /proc, the variables of now
        return _policy_of(os.environ)
    at_start = {name: value for name, _, value in (os.fsdecode(entry).partition("=") for entry in entries if entry)}
    now = _policy_of(os.environ)
    return now if now == _policy_of(at_start) else ""


def _policy_of(environment: Mapping[str, str]) -> str:
    """Return how the threads of a process with this environment wait. Without any variable they spin.

    GNU's runtime lets its own variable overrule OpenMP's.
    """
    if spins := environment.get("GOMP_SPINCOUNT", "").strip():
        count = int(spins.lstrip("0")[:9] or 0) if spins.isdecimal() else _BRIEF + 1  # such as `infinity` or `300k`
        return "active" if count > _BRIEF else "brief" if count else "passive"
    policy = environment.get("OMP_WAIT_POLICY", "").strip().lower()
    if policy in ("passive", "active"):
        return policy
    return "passive" if environment.get("KMP_BLOCKTIME") == "0" else "active"


def allocator(*, fresh: bool = False) -> str:
    """Return what malloc does with freed memory, in this process or in a fresh one that calls `prepare`.

    `keeps memory`: `prepare` has told glibc to keep it. `returns memory`: glibc's default, or as the user's variables
    (`MALLOC_…_THRESHOLD_`) say. Otherwise the name of another allocator that replaces malloc, or `system`.
    """
    if not _has_glibc() or _replaced():
        return _replaced() or "system"
    return "keeps memory" if _State.keeps_memory or (fresh and not _sets_malloc(os.environ)) else "returns memory"


def _keep_memory() -> bool:
    """Tell glibc's malloc to keep freed memory. Return whether it does. Elsewhere nothing happens.

    By default malloc returns large blocks to the system and fetches them again: thousands of page faults in each
    prefill, and another number of them in each process. Settings of the user stay. [mallopt(3)]
    """
    if not _has_glibc() or _replaced() or _sets_malloc(os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))


def _sets_malloc(environment: Mapping[str, str]) -> bool:
    """Return whether an environment says itself what glibc's malloc does."""
    return any(name in environment for name in _MALLOC) or "_threshold" in environment.get("GLIBC_TUNABLES", "")


def _has_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


def _replaced() -> str:
    """Return the name of the library that replaces malloc; empty without one."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    library = re.search(rf"/lib({'|'.join(_OTHER_ALLOCATORS)})[^/\n]*$", mapped, re.MULTILINE)
    return library[1] if library else ""
