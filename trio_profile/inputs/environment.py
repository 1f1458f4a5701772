"""The description of the machine that is stored with every measurement."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from trio_profile import process
from trio_profile.inputs import host
from trio_profile.records.schema import Environment, FileDigest, Session

_BUSY_SECONDS = 0.1
"""How long the CPUs are watched at the start of a session."""
_CUDA_VARIABLES = (
    *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUBLAS_WORKSPACE_CONFIG"),
    *("NVIDIA_TF32_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
)
"""The variables of the environment that change a time on CUDA."""


def open_session(device: str = "cpu", command: str = "", inputs: Mapping[str, FileDigest] | None = None) -> Session:
    """Describe the session that this process opens now.

    command: the user's command line; empty for this process's.
    inputs: the digests of the files that are measured.
    """
    return host.session(collect(device), inputs, command=command, busy=_busy())


def collect(device: str = "cpu", *, fresh: bool = False) -> Environment:
    """Describe this machine, the libraries and the device. Unknown fields are None.

    fresh: describe a fresh process that this one would start. Its threads wait as they should, also if torch was
        imported too early here.
    """
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    properties = torch.cuda.get_device_properties(device) if on_gpu else None
    return Environment(
        **host.facts(),
        torch=torch.__version__,
        device_name=properties.name if properties else "cpu",
        cpu_threads=torch.get_num_threads(),
        cuda=torch.version.cuda if on_gpu else None,
        driver=_driver() if on_gpu else None,
        device_memory_bytes=properties.total_memory if properties else None,
        wait_policy=_wait_policy(fresh),
        allocator=process.allocator(fresh=fresh),
        sdpa=_sdpa(device) if on_gpu else None,
        cuda_settings=_cuda_settings() if on_gpu else None,
    )


def _busy() -> float | None:
    """Return the share of all CPUs' time that other processes use now; None if the system does not say it."""
    before = _cpu_ticks()
    time.sleep(_BUSY_SECONDS)
    after = _cpu_ticks()
    if before is None or after is None or after[1] <= before[1]:
        return None
    # The kernel may correct a count downwards, as proc(5) says of the time waited for disks.
    return max(after[0] - before[0], 0) / (after[1] - before[1])


def _cpu_ticks() -> tuple[int, int] | None:
    """Return the ticks that the CPUs of the machine were busy, and all their ticks; None if the system hides them."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, idle, waiting, *others = map(int, line.split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + sum(others)
    return busy, busy + idle + waiting


def _wait_policy(fresh: bool) -> str:
    """Return what torch's threads do while they wait: see `records.schema.Environment`."""
    if torch.get_num_threads() == 1:
        return "one thread"
    if not torch.backends.openmp.is_available():
        return "passive"  # torch's own pool sleeps
    return process.wait_policy(fresh=fresh)


def _cuda_settings() -> dict[str, str]:
    """The variables and the switches of torch that change a time on CUDA. A variable that is not set is left out."""
    return {name: os.environ[name] for name in _CUDA_VARIABLES if name in os.environ} | {
        "float32 products": torch.get_float32_matmul_precision(),
        "cudnn.allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "cudnn.benchmark": str(torch.backends.cudnn.benchmark),
        "deterministic": str(torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic),
    }


def _sdpa(device: str) -> str:
    """SDPA's kernels in the order in which torch tries them.

    It depends on the versions of torch and cuDNN, and on TORCH_CUDNN_SDPA_DEPRIORITIZED. torch settles it at the first
    attention of a process, so a small one runs here.
    """
    rows = torch.zeros(1, 1, 8, 64, dtype=torch.float16, device=device)
    torch.nn.functional.scaled_dot_product_attention(rows, rows, rows)
    names = {backend.value: name.lower() for name, backend in SDPBackend.__members__.items()}
    order = torch._C._get_sdp_priority_order()  # pyright: ignore[reportAttributeAccessIssue]
    kernels = [names.get(number, str(number)).removesuffix("_attention") for number in order]
    return ", ".join(name for name in kernels if name != "overrideable") + f"; cuDNN {torch.backends.cudnn.version()}"


def _driver() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None
