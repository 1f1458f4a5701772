"""Where the time of one prefill goes: a region for each decoder layer, each other module, and each part of a stage.

Regions come from hooks and from `trio_core.spans`. A mark is an event on CUDA and a clock reading on a CPU. Nothing
waits inside the prefill. Time outside all regions (masks, hooks, Python) is a gap, named by its position.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from trio_core.methods.method import Method
from trio_core.spans import ORDER_CHECK, listening
from trio_core.trace import Trace
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.clock import Clock

Kind = Literal["prefill", "module", "layer", "stage", "within a stage"]
STAGE = ("selection", "compaction")
"""Spans of a stage that follow each other. Other spans lie within its selection."""


@dataclass(frozen=True)
class Region:
    """A part of one prefill.

    kind, name: what ran.
    layer: the decoder layer, 1-based; for a stage, the layer after which it acts.
    start_ms: from the beginning of the prefill.
    """

    kind: Kind
    name: str
    layer: int | None
    start_ms: float
    duration_ms: float


@dataclass(frozen=True)
class Timeline:
    """The regions of one prefill, in the order in which they end. The last one is the whole prefill."""

    regions: tuple[Region, ...]

    @property
    def whole_ms(self) -> float:
        """Milliseconds of the whole prefill."""
        return self.regions[-1].duration_ms

    @property
    def gaps_ms(self) -> dict[str, float]:
        """Milliseconds outside all regions: before the first decoder layer, between layers, and after the last one."""
        side_by_side = [region for region in self.regions if region.kind in ("module", "layer", "stage")]
        layers = [region for region in side_by_side if region.kind == "layer"]
        first, last = layers[0].start_ms, layers[-1].start_ms + layers[-1].duration_ms
        gaps = {
            "before the layers": first,
            "between the layers": last - first,
            "after the layers": self.whole_ms - last,
        }
        for region in side_by_side:
            where = "before" if region.start_ms < first else "between" if region.start_ms < last else "after"
            gaps[f"{where} the layers"] -= region.duration_ms
        return gaps


def measure(workload: Workload, method: Method | None, clock: Clock) -> tuple[Timeline, Trace | None]:
    """Run one instrumented prefill. Returns its timeline and pruning's trace.

    method: None for the dense model, which has no trace.
    """
    with workload.pruned(method) as trace:
        # Our hooks are registered after pruning's, so that a layer's region begins after the stage before it.
        with _listening(workload, clock) as recorder:
            workload.prefill()
        return recorder.timeline(), trace


def bare(workload: Workload, method: Method | None, clock: Clock) -> float:
    """Milliseconds of the same prefill without marks inside it."""
    with workload.pruned(method):
        start = clock.mark()
        workload.prefill()
        return clock.elapsed_ms(start, clock.mark())


class _Recorder:
    """Marks the beginning and the end of regions. Modules that a selection calls belong to the selection.

    A layer's region includes pruning's hook on it, which shortens its mask and positions. The stage before the layer
    runs in the same hook and is not included.
    """

    def __init__(self, clock: Clock):
        self.clock = clock
        self.selecting = False
        self.layer = 0
        self.next_layer: str | None = None
        self.open: dict[str, Any] = {}
        self.closed: list[tuple[Kind, str, int | None, Any, Any]] = []

    def enter(self, name: str, *_: Any) -> None:
        if not self.selecting:
            self.open[name] = self.clock.mark()

    def enter_layer(self, name: str, *_: Any) -> None:
        self.enter(name)
        self.next_layer = name

    def leave(self, kind: Kind, layer: int | None, name: str, *_: Any) -> None:
        if self.selecting or name not in self.open:
            return
        self.closed.append((kind, name, layer, self.open.pop(name), self.clock.mark()))
        if kind == "layer" and layer is not None:
            self.layer, self.next_layer = layer, None

    def span(self, name: str, entering: bool) -> None:
        if name == ORDER_CHECK:
            return
        if entering:
            self.open[name] = self.clock.mark()
        else:
            kind: Kind = "stage" if name in STAGE else "within a stage"
            self.closed.append((kind, name, self.layer, self.open.pop(name), self.clock.mark()))
            if kind == "stage" and self.next_layer is not None:
                self.open[self.next_layer] = self.clock.mark()
        if name == "selection":
            self.selecting = entering

    def timeline(self) -> Timeline:
        """Turn the marks into milliseconds. Waits for the work between them."""
        begin = self.closed[-1][3]
        return Timeline(
            tuple(
                Region(kind, name, layer, self.clock.elapsed_ms(begin, start), self.clock.elapsed_ms(start, end))
                for kind, name, layer, start, end in self.closed
            )
        )


@contextmanager
def _listening(workload: Workload, clock: Clock) -> Iterator[_Recorder]:
    recorder, adapter, model = _Recorder(clock), workload.adapter, workload.model

    def watch(kind: Kind, name: str, module: Any, layer: int | None = None) -> None:
        # On the whole model and on its layers our hooks are outside all other hooks; elsewhere they are inside.
        first = kind in ("prefill", "layer")
        enter = recorder.enter_layer if kind == "layer" else recorder.enter
        stack.enter_context(module.register_forward_pre_hook(partial(enter, name), prepend=first))
        stack.enter_context(module.register_forward_hook(partial(recorder.leave, kind, layer, name)))

    with ExitStack() as stack, listening(recorder.span):
        watch("prefill", "prefill", model)
        for path, module in beside_the_decoder(adapter):
            watch("module", path, module)
        for name, module in adapter.decoder.named_children():
            if name != "layers":
                watch("module", f"{adapter.decoder_path}.{name}", module)
        watch("module", "lm_head", model.get_output_embeddings())
        for number, module in enumerate(adapter.layers, start=1):
            watch("layer", f"layer {number}", module, number)
        yield recorder
