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

    On the CPU a fault raises at once. On CUDA the answers are copied to the host asynchronously. They are read once the
    copy is done, at the latest at the next prefill (where the host waits anyway) or when the context closes.
    """

    _copies: list[tuple[Tensor, torch.cuda.Event, str]] = field(default_factory=list)

    def hold(self, kept: Tensor, count: int, message: str) -> Tensor:
        """The kept indices; on CUDA clamped to 0 … N − 1, because an index out of range would break its context.

        kept: [K]. count: N. message: the error's text, should the indices not ascend.

        Raises TrioError with the message, on CUDA later (`settle`).
        """
        if kept.is_meta:
            return kept
        if not kept.is_cuda:
            # numpy, so that counters of torch's operators and host waits see only what also runs on a GPU.
            if (np.diff(kept.numpy(force=True), prepend=-1, append=count) <= 0).any():
                raise TrioError(message)
            return kept
        edges = F.pad(F.pad(kept, (1, 0), value=-1), (0, 1), value=count)
        host, copied = torch.empty((), dtype=torch.bool, pin_memory=True), torch.cuda.Event()
        host.copy_((edges.diff() <= 0).any(), non_blocking=True)
        copied.record(torch.cuda.current_stream(kept.device))
        self._copies.append((host, copied, message))
        return kept.clamp(0, max(count - 1, 0))

    def settle(self, *, wait: bool) -> None:
        """Read the answers that have arrived. wait: wait for the others too.

        Raises TrioError with the message of the first selection that did not ascend.
        """
        while self._copies and (wait or self._copies[0][1].query()):
            host, copied, message = self._copies.pop(0)
            copied.synchronize()
            if host:
                raise TrioError(message)
