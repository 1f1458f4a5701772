"""The time of one prefill on a GPU that is not here, from a table of operators. Nothing here imports torch.

A table knows the times of single operators on one GPU under one engine. `Tables` is its protocol;
`cost/aiconfigurator.py` is one. A prediction is a lower and an upper end, never a measurement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.records.estimate import Interval
from trio_profile.records.schema import Shape

# What the launch of one operator costs at the most. At the least it is hidden behind the operator before it.
LAUNCH_MS = 0.010
# What one wait of the host costs, at the least and at the most.
WAIT_MS = (0.010, 0.060)
# One step of the loop of Algorithm 1, measured on a CPU, and the most steps of it.
HOST_STEP_MS, HOST_STEPS = 0.0005, 1000
# From the GPU to pageable memory of the host.
COPIED_BYTES_PER_MS = 4e6
# What no table holds of a decoder layer, at the most. Fitted to TensorRT-LLM 0.5 with 128 tokens.
LEFT_OUT_MS = 0.1
# A layer's time that rises by a tenth within 8 tokens is a cliff. It is named if it is within 5 % of the tokens.
CLIFF, CLIFF_WITHIN, CLIFF_STEP = 1.10, 0.05, 8

# [3] milliseconds by their source: measured by the maker of the table, by formula, guessed.
Time = NDArray[np.float64]
# One millisecond of each source.
MEASURED, FORMULA, GUESS = np.eye(3)
# How often an operator runs, its name in `Tables`, and its sizes.
Operator = tuple[int, str, tuple[int, ...]]


class Tables(Protocol):
    """The times of operators in bfloat16 on one GPU under one engine.

    gpu, engine: their names, the engine's with its version. memory_bytes: of one GPU.
    most_tokens, most_rows: the longest sequence, and the most rows of a GEMM, that the table holds.
    """

    gpu: str
    engine: str
    memory_bytes: int
    most_tokens: int
    most_rows: int

    def gemm(self, rows: int, out: int, into: int) -> Time:
        """Return the time of [rows, into] · [into, out]."""
        ...

    def attention(self, tokens: int, heads: int, kv_heads: int, head_size: int, batch: int) -> Time:
        """Return the time of causal attention over `tokens` in each sample."""
        ...

    def encoder(self, tokens: int, heads: int, head_size: int, batch: int) -> Time:
        """Return the time of attention of all tokens to all, in each window of a batch."""
        ...

    def bytes(self, count: float) -> Time:
        """Return the time of an operator that only reads and writes memory."""
        ...

    def products(self, flops: float, itemsize: int) -> Time:
        """Return the time of products that no table holds. itemsize: bytes of a number, 2 or 4."""
        ...

    def exchange(self, values: int, gpus: int) -> Time:
        """Return the time of a sum over several GPUs."""
        ...


@dataclass(eq=False)
class Prediction:
    """One prefill on one GPU, or on several with tensor parallelism.

    shape: the decoder and its input. gpus: how many GPUs share the decoder.
    tower: the operators of the vision tower and of the projector, which run on one GPU.
    Raises StudyError if the heads do not divide, if the weights are larger than the memory, or if the table has no
    times for so many tokens.
    """

    tables: Tables
    shape: Shape
    tower: Sequence[Operator] = ()
    gpus: int = 1

    def __post_init__(self) -> None:
        shape, tables = self.shape, self.tables
        tokens = shape.visual_tokens + shape.text_tokens
        rows = max([tokens * shape.batch, *(sizes[0] for _, name, sizes in self.tower if name == "gemm")])
        attention = 2 * shape.hidden * (shape.query_width + shape.kv_width)
        layer = attention + shape.ffn_matrices * shape.hidden * shape.intermediate
        weights = 2 * (shape.num_layers * layer + 2 * shape.vocabulary * shape.hidden) / self.gpus
        if shape.heads % self.gpus:
            raise StudyError(f"--tp {self.gpus} does not divide the {shape.heads} heads of the decoder")
        if weights > tables.memory_bytes:
            has = f"{tables.gpu} has {units.size(tables.memory_bytes)}"
            raise StudyError(f"the weights take {units.size(weights)} of each GPU, and {has}: give a larger --tp")
        if tokens > tables.most_tokens or rows > tables.most_rows:
            ends = f"the table of {tables.gpu} ends at {tables.most_tokens} and {tables.most_rows}"
            raise StudyError(f"{tokens} tokens a sample, and {rows} rows in a product: {ends}")
        self.layer = cache(self.layer)

    def layer(self, tokens: int) -> Time:
        """Return the time of one decoder layer. tokens: of one sample, text included."""
        shape, of, gpus = self.shape, self.tables, self.gpus
        rows, h, head_size = tokens * shape.batch, shape.hidden, shape.query_width // shape.heads
        q, kv, ffn = (width // gpus for width in (shape.query_width, shape.kv_width, shape.intermediate))
        gates = shape.ffn_matrices - 1
        gemms = ((q + 2 * kv, h), (h, q), (gates * ffn, h), (h, ffn))
        time = sum((of.gemm(rows, *widths) for widths in gemms), 2 * of.bytes(8 * rows * h))  # two norms
        time = time + of.attention(tokens, shape.heads // gpus, max(1, kv // head_size), head_size, shape.batch)
        time = time + of.bytes(2 * rows * (gates + 1) * ffn)  # the activation
        return time if gpus == 1 else time + 2 * of.exchange(rows * h, gpus)

    def layer_range(self, tokens: int) -> Interval:
        """Return the least and the most milliseconds of one decoder layer."""
        operators = float(self.layer(tokens).sum())
        return operators, operators + LEFT_OUT_MS

    def decoder(self, visual_by_layer: Sequence[int]) -> Time:
        """Return the time of the decoder layers and of one row of the head. visual_by_layer: visual tokens."""
        shape = self.shape
        head = self.tables.gemm(shape.batch, shape.vocabulary // self.gpus, shape.hidden)
        counted = Counter(visual_by_layer).items()
        return sum((count * self.layer(visual + shape.text_tokens) for visual, count in counted), head)

    @cached_property
    def encoding(self) -> Time:
        """The time of the vision tower and the projector."""
        return sum((times * getattr(self.tables, name)(*sizes) for times, name, sizes in self.tower), 0 * GUESS)

    def whole(self, visual_by_layer: Sequence[int] = (), selections: Interval = (0.0, 0.0)) -> Interval:
        """Return the least and the most milliseconds of a prefill: tower, decoder and selections.

        visual_by_layer: visual tokens of each layer; empty for the dense model.
        """
        layers = self.shape.num_layers
        visual_by_layer = visual_by_layer or (self.shape.visual_tokens,) * layers
        operators = float((self.encoding + self.decoder(visual_by_layer)).sum())
        return operators + selections[0], operators + selections[1] + LEFT_OUT_MS * layers

    def gain(self, pruned: Interval) -> Interval:
        """Return dense over pruned. What the tables leave out of a layer is the same on both sides."""
        least, most = sorted(dense / own for dense, own in zip(self.whole(), pruned, strict=True))
        return least, most

    def selections(self, declared: Mapping[str, Any], budgets: Sequence[int]) -> Interval:
        """Return the least and the most milliseconds of all selections. A stage that drops nothing costs nothing.

        declared: the fact `selection` of the method.
        """
        before = (self.shape.visual_tokens, *budgets)
        times = [self._selection(declared, more, fewer) for more, fewer in pairwise(before) if fewer < more]
        return sum(low for low, _ in times), sum(high for _, high in times)

    def _selection(self, declared: Mapping[str, Any], visual: int, budget: int) -> Interval:
        shape, of = self.shape, self.tables
        sizes = {**shape.model_dump(), "tokens": visual + shape.text_tokens, "visual": visual, "budget": budget}
        products, float32, moved, copied, steps = (
            size(declared.get(name, "0"), sizes) for name in ("products", "float32", "bytes", "copied", "host_steps")
        )
        time = of.products(shape.batch * products, 2) + of.products(shape.batch * float32, 4)
        time = time + of.bytes(shape.batch * moved)
        for gemm in declared.get("gemms", ()):
            times, _, widths = gemm.partition(":")
            rows, out, into = (int(size(width, sizes)) for width in widths.split(","))
            time = time + int(times) * of.gemm(shape.batch * rows, out, into)
        host = declared["launches"] * LAUNCH_MS + declared["waits"] * WAIT_MS[1]
        host += HOST_STEP_MS * min(steps, HOST_STEPS) + copied / COPIED_BYTES_PER_MS
        least = float(time.sum())
        return least + WAIT_MS[0], least + shape.batch * host

    def cliff(self, tokens: int) -> tuple[int, int, float] | None:
        """Return the steepest step of a layer's time near so many tokens: from, to and the factor; None if it is flat.

        tokens: of one sample, text included.
        """
        low, high = (int(tokens * (1 + sign * CLIFF_WITHIN)) for sign in (-1, 1))
        near = range(max(CLIFF_STEP, low - low % CLIFF_STEP), high + CLIFF_STEP, CLIFF_STEP)
        steps = [(fewer, more, self.layer(more).sum() / self.layer(fewer).sum()) for fewer, more in pairwise(near)]
        steepest = max(steps, key=lambda step: step[2], default=(0, 0, 1.0))
        return steepest if steepest[2] > max(CLIFF, 1 + 2 * CLIFF_STEP / tokens) else None


def span(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest interval that holds all of them."""
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def size(text: str, sizes: Mapping[str, Any]) -> float:
    """Return the value of a declared size: `2 tokens hidden + 4 heads` with the sizes of a stage."""
    return sum(prod(float(sizes.get(word, word)) for word in term.split()) for term in text.split("+"))
