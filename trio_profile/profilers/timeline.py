"""Where the time of one prefill goes: a region for each decoder layer, each other module, and each part of a stage.

Regions come from hooks and from `trio_core.spans`. A mark is an event on CUDA and a clock reading on a CPU. Nothing
waits inside the prefill. Time outside all regions (masks, hooks, Python) is a gap, named by its position.
"""

from dataclasses import dataclass
from typing import Any, Literal

from trio_core.methods.method import Method
from trio_core.spans import ORDER_CHECK
from trio_core.trace import Trace
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.clock import Clock
from trio_profile.profilers.regions import SELECTION, Regions

Kind = Literal["prefill", "module", "layer", "stage", "within a stage"]
STAGE = (SELECTION, "compaction")
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
        return _Recorder(clock).record(workload), trace


def bare(workload: Workload, method: Method | None, clock: Clock) -> float:
    """Milliseconds of the same prefill without marks inside it."""
    with workload.pruned(method):
        start = clock.mark()
        workload.prefill()
        return clock.elapsed_ms(start, clock.mark())


class _Recorder(Regions):
    """Marks the regions of a prefill. The name of a region is its kind, its name and its layer.

    A layer's region includes pruning's hook on it, which shortens its mask and positions. The stage before the layer
    runs in the same hook and is not included.
    """

    def __init__(self, clock: Clock):
        super().__init__(clock.mark)
        self._elapsed_ms = clock.elapsed_ms
        self._layer = 0

    def record(self, workload: Workload) -> Timeline:
        """Run a prefill and return its regions in milliseconds. Waits for the work between the marks."""
        adapter, model = workload.adapter, workload.model
        modules: dict[Any, Any] = {("module", path, None): module for path, module in beside_the_decoder(adapter)}
        for name, module in adapter.decoder.named_children():
            if name != "layers":
                modules["module", f"{adapter.decoder_path}.{name}", None] = module
        modules["module", "lm_head", None] = model.get_output_embeddings()
        layers = {("layer", f"layer {number}", number): layer for number, layer in enumerate(adapter.layers, start=1)}
        with self.watching(modules.items(), {("prefill", "prefill", None): model, **layers}.items()):
            workload.prefill()
        begin = self.closed[-1][1]
        return Timeline(
            tuple(
                Region(kind, name, layer, self._elapsed_ms(begin, start), self._elapsed_ms(start, end))
                for (kind, name, layer), start, end in self.closed
            )
        )

    def _span(self, name: str, entering: bool) -> None:
        if name == ORDER_CHECK:
            return
        kind = "stage" if name in STAGE else "within a stage"
        self._begin_or_end((kind, name, self._layer), entering)
        if name == SELECTION:
            self._selecting = entering

    def _begin_or_end(self, name: Any, entering: bool) -> None:
        super()._begin_or_end(name, entering)
        kind, _, layer = name
        if kind == "layer" and not entering:
            self._layer = layer
        elif kind == "stage" and not entering:  # the layer behind the stage begins anew
            self._open |= {region: self.mark() for region in self._open if region[0] == "layer"}
