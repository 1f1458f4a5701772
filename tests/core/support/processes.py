"""Threads, processes and copies."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from functools import partial
from threading import Barrier, Thread
from typing import Any

import torch

from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Threads, processes and copies")


def in_threads(*works: Callable[[], Any], name: str = "worker") -> list[Any]:
    """Run each in a thread of its own. Returns what they return, or raises the first error."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run(work: Callable[[], Any]) -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(work,), name=name) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


GROUP.works(
    "A context that is opened in one thread and used in another",
    lambda model, one: in_threads(lambda: bench.generate(model, one))[0],
)


@GROUP.refused("Two threads in one context, one after the other")
def two_threads(model, one):
    for name in ("first", "second"):
        in_threads(lambda: bench.forward(model, one), name=name)


@GROUP.refused("Two threads in one context, at the same time")
def two_threads_at_once() -> None:
    """The thread that was first goes on undisturbed."""
    model, one, barrier = bench.model(), bench.sample(), Barrier(2)
    logits: list[torch.Tensor] = []

    def wait(*_: Any) -> None:
        # Hold the first forward until the second has failed or is inside, too.
        if not barrier.broken:
            try:
                barrier.wait(timeout=1)
            except Exception:
                barrier.abort()

    model.get_submodule("model.language_model.layers.0").register_forward_hook(wait)

    def work() -> None:
        try:
            logits.append(bench.forward(model, one).logits)
        except Exception:
            barrier.abort()
            raise

    try:
        with prune(model, bench.METHOD) as trace:
            in_threads(work, work)
    finally:
        assert len(logits) == 1, "not one of the threads went on"
        bench.prefill_is_right(trace, one, logits[0])


@GROUP.works("Two contexts of two models, each in a thread of its own")
def two_contexts() -> None:
    one, barrier = bench.sample(), Barrier(2)

    def work() -> tuple[Trace, Any]:
        model = bench.model()
        with prune(model, bench.METHOD) as trace:
            barrier.wait(timeout=30)
            return trace, bench.generate(model, one)

    for trace, output in in_threads(work, work):
        bench.text_is_right(trace, one, output)


def afterwards(check: Callable[[Any], Any]) -> None:
    """Look at a model that was pruned before. check: is given the model."""
    model = bench.model()
    with prune(model, bench.METHOD) as trace:
        bench.forward(model, bench.sample())
    bench.dropped(trace)
    check(model)


GROUP.works(
    "The model is called by another thread after the context",
    partial(afterwards, lambda model: in_threads(lambda: bench.dense_is_back(model))),
)


def forked(*, used: bool) -> None:
    """A forked child prunes in the context that its parent opened. used: the parent has run a forward already."""
    model, one = bench.model(), bench.sample()
    fork = multiprocessing.get_context("fork")
    there, here = fork.Pipe()

    def work() -> None:
        output = bench.forward(model, one)
        there.send((bench.kept(trace), output.logits.tolist()))

    with prune(model, bench.METHOD) as trace:
        if used:
            bench.forward(model, one)
        child = fork.Process(target=work)
        child.start()
        assert here.poll(30), "the child did not answer"
        kept, logits = here.recv()
        child.join()
        ours = bench.forward(model, one).logits
    assert kept == bench.plain_kept()
    bench.prefill_is_right(trace, one, torch.tensor(logits))
    bench.prefill_is_right(trace, one, ours)


GROUP.works("A child that is forked inside the context, before the first forward", partial(forked, used=False))
GROUP.works("A child that is forked inside the context, after a forward", partial(forked, used=True))
GROUP.refused("`pickle.dumps(model)` inside the context", lambda model: pickle.dumps(model))
GROUP.refused("`copy.deepcopy(model)` inside the context", lambda model: copy.deepcopy(model))


@GROUP.works("`pickle` and `copy.deepcopy` of the trace")
def trace_travels(model, one, trace):
    bench.forward(model, one)
    for other in (pickle.loads(pickle.dumps(trace)), copy.deepcopy(trace)):
        assert bench.kept(other) == bench.kept(trace)


GROUP.works(
    "`copy.deepcopy(model)` after the context",
    partial(afterwards, lambda model: bench.dense_is_back(copy.deepcopy(model))),
)
