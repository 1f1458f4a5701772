"""Check that every selection ascends, without making the host wait for the device."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import TrioError


@dataclass
class OrderCheck:
    """Checks that kept indices ascend from 0 to N − 1.

    On the CPU a fault raises at once. On CUDA the flags are copied to the host asynchronously. They are read once the
    copy is done, at the latest at the next prefill (where the host waits anyway) or when the context closes.
    """

    _flags: list[Tensor] = field(default_factory=list)
    _messages: list[str] = field(default_factory=list)
    _copies: list[tuple[Tensor, torch.cuda.Event, list[str]]] = field(default_factory=list)

    def hold(self, kept: Tensor, count: int, message: str) -> Tensor:
        """The kept indices; on a device clamped to 0 … N − 1, because an index out of range would break a CUDA context.

        kept: [K]. count: N. message: the error's text, should the indices not ascend.

        Raises TrioError with the message, at once on the CPU and later elsewhere (`settle`).
        """
        if kept.is_meta:
            return kept
        if kept.device.type == "cpu":
            # numpy, so that counters of torch's operators and host waits see only what also runs on a GPU.
            if (np.diff(kept.numpy(), prepend=-1, append=count) <= 0).any():
                raise TrioError(message)
            return kept
        edges = F.pad(F.pad(kept, (1, 0), value=-1), (0, 1), value=count)
        self._flags.append((edges.diff() <= 0).any())
        self._messages.append(message)
        return kept.clamp(0, max(count - 1, 0))

    def begin_pass(self) -> None:
        """Forget the flags of a pass that failed before its end."""
        self._flags, self._messages = [], []

    def end_pass(self) -> None:
        """Start the copy of this pass's flags to the host, for each device on which a stage ran."""
        by_device: dict[torch.device, list[int]] = {}
        for number, flag in enumerate(self._flags):
            by_device.setdefault(flag.device, []).append(number)
        for device, numbers in by_device.items():
            flags = torch.stack([self._flags[number] for number in numbers])
            messages = [self._messages[number] for number in numbers]
            if device.type != "cuda":
                _raise_first(flags, messages)
                continue
            host = torch.empty(flags.shape, dtype=flags.dtype, pin_memory=True)
            host.copy_(flags, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(device))
            self._copies.append((host, copied, messages))
        self.begin_pass()

    def settle(self, *, wait: bool) -> None:
        """Read the answers that have arrived. wait: wait for the others too.

        Raises TrioError with the message of the first selection that did not ascend.
        """
        while self._copies and (wait or self._copies[0][1].query()):
            host, copied, messages = self._copies.pop(0)
            copied.synchronize()
            _raise_first(host, messages)


def _raise_first(flags: Tensor, messages: list[str]) -> None:
    for fault, message in zip(flags.tolist(), messages, strict=True):
        if fault:
            raise TrioError(message)
