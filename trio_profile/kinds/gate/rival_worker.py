"""One side of a comparison: a process that imports from one tree and runs one workload on request.

It is run by its path and imports only the standard library, because the tree may be of a revision without this file.

It talks over a connection, whose number is its argument. It first reads the trees and the workload, and sends
`{"exact": {…}}` when it is ready. For each message that follows it sends `{"ms": …, "cpu_ms": …, "busy_cores": …}`:
what the workload returns, the CPU time of the whole call, all threads together, and this time over the wall time of
the call. After an error it sends `{"error": …}` and ends. It also ends when the connection is closed.

A workload is named "module:function". The function is called once with the arguments, and returns a second function.
Each call of the second function does the work once and returns the milliseconds. It may have an attribute `exact`: a
dictionary of whole numbers that must not grow.
"""

import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

DEFAULT = "trio_profile.gate:prefill"


class prefill:
    """The default workload: one prefill of a model.

    model: a name as for `trio-profile sweep`.
    method: a pruning method, or "dense".
    retention: share of the visual tokens that is kept.
    fields: further fields of `Study`.
    """

    def __init__(self, model: str = "pocket", method: str = "trio", retention: float = 0.11, **fields: Any):
        from contextlib import nullcontext

        import torch

        from trio_core import methods, prune
        from trio_profile.inputs.workload import build
        from trio_profile.records.schema import Study

        self.workload = build(Study(model=model, **fields))
        pruner = None if method == "dense" else methods.find(method)(retention=retention)
        self.pruned = nullcontext if pruner is None else lambda: prune(self.workload.model, pruner)
        device = self.workload.device
        self.wait = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
        with self.pruned() as trace:
            self.workload.prefill()
        kept = () if trace is None else [len(stage.kept[0]) for stage in trace.stages]
        self.exact = {f"kept_at_stage_{number}": count for number, count in enumerate(kept, start=1)}

    def __call__(self) -> float:
        """Milliseconds of one prefill, the selection of tokens included."""
        with self.pruned():
            self.wait()
            start = time.perf_counter_ns()
            self.workload.prefill()
            self.wait()
            return (time.perf_counter_ns() - start) / 1e6


def load(workload: str) -> Callable[..., Callable[[], float]]:
    """The function that a workload names. Raises ValueError, ImportError or AttributeError if there is none."""
    if workload == DEFAULT:  # the tree may be of a revision without it
        return prefill
    module, colon, function = workload.partition(":")
    if not (module and colon and function):
        raise ValueError(f"workload {workload!r} is not of the form module:function")
    return getattr(import_module(module), function)


def one_line(error: BaseException) -> str:
    """An error as one line: its type and the first line of its message that is not empty."""
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _require_of_this_tree(tree: Path, other: Path) -> None:
    """Raise ImportError if a module was imported from the other tree, or none from this one.

    Otherwise the same code would be compared with itself.
    """
    installed, this = Path(sys.prefix).resolve(), Path(__file__).resolve()
    named = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    files = {name: Path(file).resolve() for name, file in named if file}
    ours = {name: file for name, file in files.items() if file != this and not file.is_relative_to(installed)}
    if not any(file.is_relative_to(tree) for file in ours.values()):
        raise ImportError("the workload imports nothing from this revision: name a module inside the repository")
    if strays := [name for name, file in ours.items() if file.is_relative_to(other) and not file.is_relative_to(tree)]:
        raise ImportError(f"{strays[0]} was imported from the other revision's tree")


def _serve(connection: Connection) -> None:
    tree, other, places, workload, arguments = connection.recv()
    sys.path[0:1] = [str(place) for place in (tree, *(tree / name for name in places)) if place.is_dir()]
    run = load(workload)(**arguments)
    exact = {quantity: int(value) for quantity, value in getattr(run, "exact", {}).items()}
    _require_of_this_tree(tree, other)
    gc.collect()
    gc.freeze()  # so that a collection looks only at what the last run left
    gc.disable()
    connection.send({"exact": exact})
    while True:
        connection.recv()
        start, cpu_start = time.perf_counter_ns(), time.process_time_ns()
        ms = float(run())
        cpu_ns, wall_ns = time.process_time_ns() - cpu_start, time.perf_counter_ns() - start
        gc.collect()  # before the answer: the other side runs after it
        connection.send({"ms": ms, "cpu_ms": cpu_ns / 1e6, "busy_cores": cpu_ns / wall_ns})


def main() -> None:
    """Serve until the connection is closed."""
    connection = Connection(int(sys.argv[1]))
    try:
        _serve(connection)
    except (Exception, SystemExit) as error:
        with suppress(OSError):  # nobody listens any more
            connection.send({"error": one_line(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
