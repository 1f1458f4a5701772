"""The time of one prefill on a GPU that is not here, from a table of operators. Nothing here imports torch.

A table knows the times of single operators on one GPU under one engine. `Tables` is its protocol;
`cost/aiconfigurator.py` is one. A prediction is a lower and an upper end, never a measurement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Protocol

from trio_profile.errors import StudyError
from trio_profile.records.estimate import Interval
from trio_profile.records.schema import Shape

LAUNCH_MS = 0.010
"""What the launch of one operator costs at the most. At the least it is hidden behind the operator before it."""
WAIT_MS = (0.010, 0.060)
"""What one wait of the host costs, at the least and at the most."""
HOST_STEP_MS, HOST_STEPS = 0.0005, 1000
"""One step of the loop of Algorithm 1, measured on a CPU, and the most steps of it."""
COPIED_BYTES_PER_MS = 4e6
"""From the GPU to pageable memory of the host."""
LEFT_OUT_MS = 0.1
"""What no table holds of a decoder layer, at the most. Fitted to TensorRT-LLM 0.5 with 128 tokens."""
CLIFF, CLIFF_WITHIN, CLIFF_STEP = 1.10, 0.05, 8
"""A layer's time that rises by a tenth within 8 tokens is a cliff. It is named if it is within 5 % of the tokens."""


@dataclass(frozen=True)
class Time:
    """Milliseconds by their source.

    measured: by the maker of the table. formula: computed from measured ones, or from the data sheet.
    guess: of an operator that the table does not hold.
    """

    measured: float = 0.0
    formula: float = 0.0
    guess: float = 0.0

    @property
    def ms(self) -> float:
        """All milliseconds."""
        return self.measured + self.formula + self.guess

    def __add__(self, other: "Time") -> "Time":
        return Time(self.measured + other.measured, self.formula + other.formula, self.guess + other.guess)

    def __mul__(self, times: int) -> "Time":
        return Time(times * self.measured, times * self.formula, times * self.guess)


class Tables(Protocol):
    """The times of operators in bfloat16 on one GPU under one engine.

    gpu, engine, version: their names. memory_bytes: of one GPU.
    most_tokens, most_rows: the longest sequence, and the most rows of a GEMM, that the table holds.
    """

    gpu: str
    engine: str
    version: str
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


@dataclass(frozen=True)
class TowerLayers:
    """Layers of a vision tower. rows: their tokens. window: tokens that attend to each other. matrices: of the FFN."""

    number: int
    rows: int
    window: int
    width: int
    heads: int
    intermediate: int
    matrices: int = 2


@dataclass(frozen=True)
class Tower:
    """A vision tower with its projector. linears: rows, output width and input width of each single product."""

    layers: tuple[TowerLayers, ...] = ()
    linears: tuple[tuple[int, int, int], ...] = ()


@dataclass
class Prefill:
    """One prefill on one GPU, or on several with tensor parallelism.

    shape: the decoder and its input. gpus: how many GPUs share the decoder.
    Raises StudyError if the heads do not divide, if the weights are larger than the memory, or if the table has no
    times for so many tokens.
    """

    tables: Tables
    shape: Shape
    tower: Tower = Tower()
    gpus: int = 1
    _layers: dict[int, Time] = field(default_factory=dict, repr=False)
    _encoding: list[Time] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        shape, tables = self.shape, self.tables
        if shape.heads % self.gpus:
            raise StudyError(f"--tp {self.gpus} does not divide the {shape.heads} heads of the decoder")
        if (need := self.weight_bytes / self.gpus) > tables.memory_bytes:
            has = f"{tables.gpu} has {tables.memory_bytes / 1e9:.0f} GB"
            raise StudyError(f"the weights take {need / 1e9:.0f} GB of each GPU and {has}: give a larger --tp")
        tokens = shape.visual_tokens + shape.text_tokens
        rows = max([tokens * shape.batch, *(part.rows for part in self.tower.layers)])
        if tokens > tables.most_tokens or rows > tables.most_rows:
            limits = f"{tables.most_tokens} tokens a sample and {tables.most_rows} in all"
            raise StudyError(f"{tokens} tokens a sample, {rows} rows: the table of {tables.gpu} ends at {limits}")

    @property
    def weight_bytes(self) -> int:
        """The weights of the decoder and of its embeddings."""
        shape = self.shape
        attention = 2 * shape.hidden * (shape.query_width + shape.kv_width)
        layer = attention + shape.ffn_matrices * shape.hidden * shape.intermediate
        return 2 * (shape.num_layers * layer + 2 * shape.vocabulary * shape.hidden)

    def layer(self, tokens: int) -> Time:
        """Return the time of one decoder layer. tokens: of one sample, text included."""
        if tokens not in self._layers:
            self._layers[tokens] = self._layer(tokens)
        return self._layers[tokens]

    def _layer(self, tokens: int) -> Time:
        shape, of, gpus = self.shape, self.tables, self.gpus
        rows, h, head_size = tokens * shape.batch, shape.hidden, shape.query_width // shape.heads
        q, kv, ffn = (width // gpus for width in (shape.query_width, shape.kv_width, shape.intermediate))
        gates = shape.ffn_matrices - 1
        operators = [
            of.bytes(8 * rows * h) * 2,  # the norms
            of.gemm(rows, q + 2 * kv, h),
            of.attention(tokens, shape.heads // gpus, max(1, kv // head_size), head_size, shape.batch),
            of.gemm(rows, h, q),
            of.gemm(rows, gates * ffn, h),
            of.bytes(2 * rows * (gates + 1) * ffn),  # the activation
            of.gemm(rows, h, ffn),
        ]
        return total([*operators, of.exchange(rows * h, gpus) * 2] if gpus > 1 else operators)

    def decoder(self, visual_by_layer: Sequence[int]) -> Time:
        """Return the time of the decoder layers and of one row of the head. visual_by_layer: visual tokens."""
        text, shape = self.shape.text_tokens, self.shape
        layers = [self.layer(visual + text) * count for visual, count in Counter(visual_by_layer).items()]
        return total([*layers, self.tables.gemm(shape.batch, shape.vocabulary // self.gpus, shape.hidden)])

    def encoding(self) -> Time:
        """Return the time of the vision tower and the projector, on one GPU."""
        if not self._encoding:
            layers = [self._tower_layer(part) * part.number for part in self.tower.layers]
            self._encoding.append(total([*layers, *(self.tables.gemm(*sizes) for sizes in self.tower.linears)]))
        return self._encoding[0]

    def _tower_layer(self, part: TowerLayers) -> Time:
        of, rows, d, ffn = self.tables, part.rows, part.width, part.intermediate
        products = ((3 * d, d), (d, d), (ffn * (part.matrices - 1), d), (d, ffn))
        attention = of.encoder(part.window, part.heads, d // part.heads, max(1, rows // part.window))
        return total([attention, of.bytes(24 * rows * d), *(of.gemm(rows, *widths) for widths in products)])

    def selection(self, declared: Mapping[str, Any], visual: int, budget: int) -> Interval:
        """Return the least and the most milliseconds of one selection.

        declared: the fact `selection` of the method. visual, budget: visual tokens before and after it.
        """
        shape, of = self.shape, self.tables
        sizes = {**shape.model_dump(), "tokens": visual + shape.text_tokens, "visual": visual, "budget": budget}
        sums = {name: shape.batch * size(declared[name], sizes) for name in ("products", "float32", "bytes", "copied")}
        gemms = [
            of.gemm(shape.batch * int(size(rows, sizes)), int(size(out, sizes)), int(size(into, sizes))) * times
            for times, rows, out, into in declared["gemms"]
        ]
        rest = [of.products(sums["products"], 2), of.products(sums["float32"], 4), of.bytes(sums["bytes"])]
        device = total([*gemms, *rest]).ms
        host = declared["launches"] * LAUNCH_MS + declared["waits"] * WAIT_MS[1]
        loop = HOST_STEP_MS * min(size(declared["host_steps"], sizes), HOST_STEPS)
        return device + WAIT_MS[0], device + shape.batch * (host + loop) + sums["copied"] / COPIED_BYTES_PER_MS

    def whole(self, visual_by_layer: Sequence[int], selections: Interval = (0.0, 0.0)) -> Interval:
        """Return the least and the most milliseconds of a prefill: tower, decoder and selections."""
        operators = self.encoding().ms + self.decoder(visual_by_layer).ms
        return operators + selections[0], operators + selections[1] + LEFT_OUT_MS * self.shape.num_layers

    def selections(self, declared: Mapping[str, Any], budgets: Sequence[int]) -> Interval:
        """Return the least and the most milliseconds of all selections. A stage that drops nothing costs nothing."""
        before = (self.shape.visual_tokens, *budgets)
        times = [self.selection(declared, more, fewer) for more, fewer in pairwise(before) if fewer < more]
        return sum(low for low, _ in times), sum(high for _, high in times)

    def cliff(self, tokens: int) -> tuple[int, int, float] | None:
        """Return the steepest step of a layer's time near so many tokens: from, to and the factor; None if it is flat.

        tokens: of one sample, text included.
        """
        low, high = (int(tokens * (1 + sign * CLIFF_WITHIN)) for sign in (-1, 1))
        near = range(max(1, low - low % CLIFF_STEP), high + CLIFF_STEP, CLIFF_STEP)
        steps = [(fewer, more, self.layer(more).ms / self.layer(fewer).ms) for fewer, more in pairwise(near)]
        steepest = max(steps, key=lambda step: step[2], default=None)
        return steepest if steepest and steepest[2] > max(CLIFF, (1 + 2 * CLIFF_STEP / tokens)) else None


def total(times: Iterable[Time]) -> Time:
    """Return the sum of times."""
    return sum(times, Time())


def size(text: str, sizes: Mapping[str, Any]) -> float:
    """Return the value of a declared size: `2 tokens hidden + 4 heads` with the sizes of a stage."""
    return sum(prod(float(sizes.get(word, word)) for word in term.split()) for term in text.split("+"))
