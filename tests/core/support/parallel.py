"""Models that are split over processes: two processes on this machine, which talk by gloo."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune

GROUP = Group("Several processes")
PROCESSES = 2
METHODS = ("trio", "trio-printed", "fastv", "dart", "visionzip", "random")


def in_processes(work: Callable[[str], str]) -> str:
    """Run in two processes of one group. All must say the same, or raise the same error.

    work: is given a folder that both see.
    """
    with tempfile.TemporaryDirectory() as folder:
        fork, answers, children = multiprocessing.get_context("fork"), [], []
        for rank in range(PROCESSES):
            here, there = fork.Pipe(duplex=False)
            children.append(fork.Process(target=_work, args=(work, folder, rank, there)))
            children[-1].start()
            answers.append(here)
        said = [answer.recv() if answer.poll(120) else AssertionError("a process did not answer") for answer in answers]
        for child in children:
            child.join()
    assert len({str(one) for one in said}) == 1, f"the processes differ: {said}"
    if isinstance(said[0], BaseException):
        raise said[0]
    return said[0]


def _work(work: Callable[[str], str], folder: str, rank: int, answer: Connection) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(PROCESSES))
    try:
        distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
        answer.send(work(folder))
        distributed.barrier()
    except BaseException as error:
        answer.send(error)
    os._exit(0)  # gloo's threads are not waited for


def each_refuses(model: Any) -> str:
    """Every method raises the same error when the context opens."""
    said = set()
    for name in METHODS:
        try:
            with prune(model, name, retention=0.5):
                bench.forward(model, bench.sample())
        except Exception as error:
            said.add(f"{type(error).__name__}: {error}")
            last = error
        else:
            raise AssertionError(f"{name} was not refused")
    assert len(said) == 1, said
    raise last


def row(expected: Callable[..., Any], title: str) -> Callable[[Callable[[str], Any]], Any]:
    """Register a setup that runs in two processes. It is given a folder that both see."""
    return lambda work: expected(title, partial(in_processes, work))


@row(GROUP.refused, '`from_pretrained(…, tp_plan="auto")`')
def tensor_parallel(folder: str) -> str:
    bench.model().save_pretrained(folder)  # the first process writes
    distributed.barrier()
    return each_refuses(type(tiny.model("llava")).from_pretrained(folder, tp_plan="auto"))


row(GROUP.refused, "`fully_shard(model)`")(lambda _folder: each_refuses(sharded(bench.model())))


def sharded(model: PreTrainedModel) -> PreTrainedModel:
    for layer in model.get_submodule("model.language_model.layers").children():
        fully_shard(layer)
    fully_shard(model)
    return model


@row(GROUP.refused, "`fully_shard(model)` inside the context")
def fsdp_inside(_folder: str) -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, "random", retention=0.5):
        bench.forward(model, one)
        bench.forward(sharded(model), one)


@row(GROUP.refused, "`FullyShardedDataParallel` around each decoder layer")
def fsdp_1(_folder: str) -> str:
    model = bench.model()
    policy = ModuleWrapPolicy({LlamaDecoderLayer})
    FullyShardedDataParallel(model, device_id=torch.device("cpu"), auto_wrap_policy=policy)
    return each_refuses(model)


@row(GROUP.works, "`DistributedDataParallel(model)`; `model` is passed to `prune`, the wrapper is called")
def data_parallel(_folder: str) -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(DistributedDataParallel(model), one).logits
    return bench.prefill_is_right(trace, one, logits)


class Part(nn.Linear):
    """A linear layer that yields the first half of its outputs, as a process of a home-made tensor parallel does."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input)[..., : self.out_features // 2]


@GROUP.refused("Projections that yield a part of the heads, without torch's classes")
def part_of_the_heads() -> str:
    model = bench.model()
    for layer in model.get_submodule("model.language_model.layers").children():
        for name in ("q_proj", "k_proj", "v_proj"):
            layer.get_submodule(f"self_attn.{name}").__class__ = Part
        output: Any = layer.get_submodule("self_attn.o_proj")
        output.weight = nn.Parameter(output.weight[:, : output.in_features // 2].detach())
    return each_refuses_parts(model)


def each_refuses_parts(model: Any) -> str:
    """Methods that take a layer apart raise the same error, and `random` goes on."""
    with prune(model, "random", retention=0.5):
        bench.forward(model, bench.sample())
    raised = []
    for name in ("trio", "fastv", "dart", "pact"):
        try:
            with prune(model, name, retention=0.5):
                bench.forward(model, bench.sample())
        except Exception as error:
            raised.append(error)
    assert len(raised) == 4 and len({str(error) for error in raised}) == 1, raised
    raise raised[0]
