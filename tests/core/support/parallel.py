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


def in_processes(work: Callable[[str], None]) -> None:
    """Run in two processes of one group. Both must raise the same error, or none.

    work: is given a folder that both see.
    """
    with tempfile.TemporaryDirectory() as folder:
        fork, answers, children = multiprocessing.get_context("fork"), [], []
        for rank in range(PROCESSES):
            here, there = fork.Pipe(duplex=False)
            children.append(fork.Process(target=_work, args=(work, folder, rank, there)))
            children[-1].start()
            answers.append(here)
        errors = [answer.recv() if answer.poll(120) else AssertionError("no answer") for answer in answers]
        for child in children:
            child.join()
    raise_the_same(errors)


def raise_the_same(errors: list[BaseException | None]) -> None:
    """Raise the errors, which must be one and the same; nothing if there are none."""
    assert len({repr(error) for error in errors}) == 1, f"they differ: {errors}"
    if errors[0] is not None:
        raise errors[0]


def _work(work: Callable[[str], None], folder: str, rank: int, answer: Connection) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(PROCESSES))
    try:
        distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
        work(folder)
        answer.send(None)
        distributed.barrier()
    except BaseException as error:
        answer.send(error)
    os._exit(0)  # gloo's threads are not waited for


def each_refuses(model: Any, names: tuple[str, ...] = METHODS) -> None:
    """Every method raises the same error."""
    errors: list[BaseException | None] = []
    for name in names:
        try:
            with prune(model, name, retention=0.5):
                bench.forward(model, bench.sample())
            errors.append(None)
        except Exception as error:
            errors.append(error)
    raise_the_same(errors)


def row(expected: Callable[..., Any], title: str) -> Callable[[Callable[[str], Any]], Any]:
    """Register a setup that runs in two processes. It is given a folder that both see."""
    return lambda work: expected(title, partial(in_processes, work))


@row(GROUP.refused, '`from_pretrained(…, tp_plan="auto")`')
def tensor_parallel(folder: str) -> None:
    bench.model().save_pretrained(folder)  # the first process writes
    distributed.barrier()
    each_refuses(type(tiny.model("llava")).from_pretrained(folder, tp_plan="auto"))


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
def fsdp_1(_folder: str) -> None:
    model = bench.model()
    policy = ModuleWrapPolicy({LlamaDecoderLayer})
    FullyShardedDataParallel(model, device_id=torch.device("cpu"), auto_wrap_policy=policy)
    each_refuses(model)


@row(GROUP.works, "`DistributedDataParallel(model)`; `model` is passed to `prune`, the wrapper is called")
def data_parallel(_folder: str) -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        logits = bench.forward(DistributedDataParallel(model), one).logits
    bench.prefill_is_right(trace, one, logits)


class Part(nn.Linear):
    """A linear layer that yields the first half of its outputs, as a process of a home-made tensor parallel does."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input)[..., : self.out_features // 2]


@GROUP.refused("Projections that yield a part of the heads, without torch's classes")
def part_of_the_heads() -> None:
    """Methods that take a layer apart raise the same error, and `random` goes on."""
    model: Any = bench.model()
    for layer in model.model.language_model.layers:
        for name in ("q_proj", "k_proj", "v_proj"):
            layer.get_submodule(f"self_attn.{name}").__class__ = Part
        output = layer.self_attn.o_proj
        output.weight = nn.Parameter(output.weight[:, : output.in_features // 2].detach())
    with prune(model, "random", retention=0.5):
        bench.forward(model, bench.sample())
    each_refuses(model, ("trio", "fastv", "dart", "pact"))
