"""What the charts of several reports share. Each chart is a function of the document."""

from collections.abc import Iterable, Sequence

from trio_profile.analysis.ablate import Ablation
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings.blocks import Axis

RETENTION = Axis("Retention", 0, 102, " %", digits=1)
RIGHT_ANSWERS = Axis("Questions answered right", 0, 105, " %")


def colour_of(document: SweepDocument | Comparison | Ablation, method: str) -> int:
    """The number of a method's colour: its place in the study, so that it is the same in every chart and table."""
    return document.study.methods.index(method)


def percents(shares: Iterable[float]) -> list[float]:
    """Shares of 0 to 1 as a percent axis has them."""
    return [100 * share for share in shares]


def ends(intervals: Sequence[tuple[float, float]], scale: float = 1) -> tuple[list[float], list[float]]:
    """The lower ends and the upper ends of intervals, each multiplied by `scale`."""
    return [scale * low for low, _ in intervals], [scale * high for _, high in intervals]


def highest(values: Iterable[float], *, least: float = 1.0) -> float:
    """The upper end of an axis that begins at 0: a little above all values, and above `least`."""
    return 1.08 * max([least, *values])
