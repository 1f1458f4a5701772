"""The description of the machine that is stored with every measurement."""

import os
import platform
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from trio_profile.records.schema import Environment


def collect(device: str = "cpu") -> Environment:
    """Describe this machine, the libraries and the device. Unknown fields are None."""
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    properties = torch.cuda.get_device_properties(device) if on_gpu else None
    return Environment(
        hostname=socket.gethostname(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=version("transformers"),
        fvcore=version("fvcore"),
        device_name=properties.name if properties else "cpu",
        cpu=_cpu_name(),
        cpu_threads=torch.get_num_threads(),
        memory_bytes=_host_memory(),
        cuda=torch.version.cuda if on_gpu else None,
        driver=_driver() if on_gpu else None,
        device_memory_bytes=properties.total_memory if properties else None,
        sdpa=_sdpa() if on_gpu else None,
        commit=_commit(),
    )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _host_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _sdpa() -> str | None:
    """SDPA's kernels in the order in which torch tries them.

    It depends on the versions of torch and cuDNN, and on TORCH_CUDNN_SDPA_DEPRIORITIZED.
    """
    names = {backend.value: name.lower() for name, backend in SDPBackend.__members__.items()}
    try:
        order = torch._C._get_sdp_priority_order()  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError:
        return None
    kernels = [names.get(number, str(number)).removesuffix("_attention") for number in order]
    return ", ".join(name for name in kernels if name != "overrideable") + f"; cuDNN {torch.backends.cudnn.version()}"


def _driver() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this code runs from, with a + where it has changes; None outside a checkout."""
    here = Path(__file__).parent.parent
    if not (here.parent / ".git").exists():
        return None
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()
