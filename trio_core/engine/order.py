"""Hold every selection to ascending indices, without a wait of the host for the device."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import TrioError


@dataclass
class OrderCheck:
    """Checks that kept indices ascend from 0 to N − 1.

    On the CPU the answer is there at once. On CUDA it is copied to the host behind the pass, and read when the copy has
    arrived or when the host waits anyway: at the next prefill, or when the context closes.
    """

    _flags: list[Tensor] = field(default_factory=list)
    _messages: list[str] = field(default_factory=list)
    _copies: list[tuple[Tensor, torch.cuda.Event, list[str]]] = field(default_factory=list)

    def hold(self, kept: Tensor, count: int, message: str) -> Tensor:
        """The kept indices, safe to index with: a bad index cannot reach a CUDA kernel, where it would end the process.

        kept: [K]. count: N. message: the error's text, should the indices not ascend.

        Raises TrioError with the message, at once on the CPU and later elsewhere (`settle`).
        """
        if kept.is_meta:
            return kept
        if kept.device.type == "cpu":
            # In numpy, so that what counts torch's operators and host waits counts only what a GPU would run too.
            if (np.diff(kept.numpy(), prepend=-1, append=count) <= 0).any():
                raise TrioError(message)
            return kept
        edges = F.pad(F.pad(kept, (1, 0), value=-1), (0, 1), value=count)
        self._flags.append((edges.diff() <= 0).any())
        self._messages.append(message)
        return kept.clamp(0, max(count - 1, 0))

    def end_pass(self) -> None:
        """Start the copy of this pass's answers to the host."""
        if not self._flags:
            return
        flags, messages = torch.stack(self._flags), self._messages
        self._flags, self._messages = [], []
        if flags.device.type != "cuda":
            _raise_first(flags, messages)
            return
        host = torch.empty(flags.shape, dtype=flags.dtype, pin_memory=True)
        host.copy_(flags, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(flags.device))
        self._copies.append((host, arrived, messages))

    def settle(self, *, wait: bool) -> None:
        """Read the answers that have arrived. wait: wait for the others too.

        Raises TrioError with the message of the first selection that did not ascend.
        """
        while self._copies and (wait or self._copies[0][1].query()):
            host, arrived, messages = self._copies.pop(0)
            arrived.synchronize()
            _raise_first(host, messages)


def _raise_first(flags: Tensor, messages: list[str]) -> None:
    for fault, message in zip(flags.tolist(), messages, strict=True):
        if fault:
            raise TrioError(message)
