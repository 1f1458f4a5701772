"""Threads, processes and copies."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import torch

from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.trace import Trace

GROUP = Group("Threads, processes and copies")


def in_thread(name: str, work: Callable[[], Any]) -> Any:
    """Run in a thread of that name. Returns what it returns, or raises what it raises."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, name=name)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@GROUP.works("A context that is opened in one thread and used in another")
def used_elsewhere(model, one):
    return in_thread("worker", lambda: bench.generate(model, one))


@GROUP.refused("Two threads in one context, one after the other")
def two_threads(model, one):
    in_thread("first", lambda: bench.forward(model, one))
    return in_thread("second", lambda: bench.forward(model, one)).logits


@GROUP.refused("Two threads in one context, at the same time")
def two_threads_at_once() -> str:
    model, one = bench.model(), bench.sample()
    barrier = Barrier(2)
    errors: list[Exception] = []
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
        except Exception as error:
            errors.append(error)
            barrier.abort()

    with prune(model, bench.METHOD) as trace:
        threads = [Thread(target=work, name=name) for name in ("worker", "worker")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(errors) == 1 and len(logits) == 1:
        bench.prefill_is_right(trace, one, logits[0])  # the thread that was first goes on undisturbed
        raise errors[0]
    raise AssertionError(f"{len(errors)} of 2 threads raised: {errors}")


@GROUP.works("Two contexts of two models, each in a thread of its own")
def two_contexts() -> str:
    one, barrier = bench.sample(), Barrier(2)
    results: dict[str, tuple[Trace, Any]] = {}

    def work(name: str) -> None:
        model = bench.model()
        with prune(model, bench.METHOD) as trace:
            barrier.wait(timeout=30)
            results[name] = trace, bench.generate(model, one)

    threads = [Thread(target=work, args=(name,), name=name) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [bench.text_is_right(trace, one, output) for trace, output in results.values()]
    assert len(said) == 2
    return f"{said[0][:-1]}, in both threads."


@GROUP.works("The model is called by another thread after the context")
def thread_afterwards() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        bench.forward(model, one)
    counts = bench.dropped(trace)
    return f"{counts}. {in_thread('worker', lambda: bench.dense_is_back(model))}"


def forked(*, used: bool) -> str:
    """A forked child prunes in the context that its parent opened. used: the parent has run a forward already."""
    model, one = bench.model(), bench.sample()
    there, here = multiprocessing.get_context("fork").Pipe()

    def work() -> None:
        try:
            output = bench.forward(model, one)
            there.send((bench.kept(trace), output.logits.tolist()))
        except BaseException as error:
            there.send(error)

    with prune(model, bench.METHOD) as trace:
        if used:
            bench.forward(model, one)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        assert here.poll(30), "the child did not answer"
        answer = here.recv()
        child.join()
        if isinstance(answer, BaseException):
            raise answer
        kept, logits = answer
        ours = bench.forward(model, one).logits
    assert kept == bench.plain_kept()
    assert bench.near(bench.rows_left(trace, one, torch.tensor(logits)[0]), bench.shortened(trace, one)[0])
    return f"In the parent: {bench.prefill_is_right(trace, one, ours)} In the child: the same tokens and logits."


GROUP.works("A child that is forked inside the context, before the first forward", lambda: forked(used=False))
GROUP.works("A child that is forked inside the context, after a forward", lambda: forked(used=True))
GROUP.refused("`pickle.dumps(model)` inside the context", lambda model, one: pickle.dumps((model, one)))


@GROUP.refused("`copy.deepcopy(model)` inside the context")
def copied_model() -> str:
    model = bench.model()
    with prune(model, bench.METHOD):
        copied = copy.deepcopy(model)
    bench.dense_is_back(copied)


@GROUP.works("`pickle` and `copy.deepcopy` of the trace")
def trace_travels(model, one, trace):
    bench.forward(model, one)
    copies = [pickle.loads(pickle.dumps(trace)), copy.deepcopy(trace)]
    assert all(bench.kept(other) == bench.kept(trace) for other in copies)
    return f"{bench.dropped(copies[0])}; the copies name the same tokens."


@GROUP.works("`copy.deepcopy(model)` after the context")
def copied_afterwards() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        bench.forward(model, one)
    said = bench.dense_is_back(copy.deepcopy(model))
    return f"{bench.dropped(trace)}. {said.replace('Outside the context', 'In the copy')}"
