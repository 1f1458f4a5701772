"""The paper's figure of layer-wise statistics: which share of the visual tokens lies above the mean saliency.

Each benchmark has a curve. Where all questions come from one file, or from the model itself, each kind of question has
one.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from trio_profile import units
from trio_profile.inputs.questions import FEWEST
from trio_profile.kinds.theory.document import Count, TheoryDocument, TokenShare
from trio_profile.quantities import entries
from trio_profile.report.blocks import Entry, Table
from trio_profile.text import listed

ALL = "all questions"
"""The name of the curve over all questions."""
Step = tuple[int, int]
"""A layer and the next one."""


def shares(document: TheoryDocument) -> dict[str, list[TokenShare]]:
    """The share at each layer: first that of all questions, then that of each benchmark, by its name."""
    curves = {ALL: [layer.above_mean_share for layer in document.layers]}
    first, *_ = document.layers
    for name in _in_order(first.above_mean_share_by_benchmark, document):
        curves[name] = [layer.above_mean_share_by_benchmark[name] for layer in document.layers]
    return curves


def group(document: TheoryDocument) -> str:
    """The group that a curve is about: `benchmark` if the study had several files, otherwise `kind`."""
    return "benchmark" if len(document.study.question_files) > 1 else "kind"


def _in_order(names: Iterable[str], document: TheoryDocument) -> list[str]:
    """Benchmarks in the order of their files, kinds by name."""
    return list(names) if group(document) == "benchmark" else sorted(names)


def sentences(document: TheoryDocument) -> list[str]:
    """Between which layers the share changes most, over all questions and for each benchmark."""
    if len(document.layers) == 1:
        return ["There is one layer, so there is no change from layer to layer."]
    curves = shares(document)
    steps = {name: _largest(curve) for name, curve in curves.items()}
    earlier, later = steps[ALL]
    before, after = (curves[ALL][layer - 1].value for layer in (earlier, later))
    verb = "rises" if after > before else "falls"
    lines = [
        f"The share of visual tokens above the mean changes most from layer {earlier} to layer {later}: "
        f"it {verb} from {units.percent(before)} to {units.percent(after)}."
    ]
    if own := {name: step for name, step in steps.items() if name != ALL}:
        lines.append(_by_group(own, steps[ALL]))
    return [*lines, *_too_few(document)]


def _largest(curve: Sequence[TokenShare]) -> Step:
    """The two neighbouring layers between which the share changes most."""
    changes = [abs(later.value - earlier.value) for earlier, later in pairwise(curve)]
    layer = changes.index(max(changes)) + 1
    return layer, layer + 1


def _by_group(steps: Mapping[str, Step], of_all: Step) -> str:
    """For which benchmarks the largest change is the same, and where the others have theirs."""
    if set(steps.values()) == {of_all}:
        return f"It is the same step for {listed(list(steps))}."
    places: dict[Step, list[str]] = {}
    for name, step in steps.items():
        places.setdefault(step, []).append(name)
    parts = (f"from layer {step[0]} to layer {step[1]} for {listed(names)}" for step, names in sorted(places.items()))
    return f"The largest change is {', and '.join(parts)}."


def _too_few(document: TheoryDocument) -> list[str]:
    """The benchmarks without a curve."""
    if few := [benchmark for benchmark in document.benchmarks if benchmark.questions < FEWEST]:
        named = listed([f"{benchmark.name} ({benchmark.questions})" for benchmark in few])
        return [f"An interval needs {FEWEST} questions, so there is no curve for {named}."]
    return []


def tables(document: TheoryDocument) -> list[Table]:
    """The questions of each benchmark, then the share at each layer, then the number of tokens, as the paper has it.

    Empty if there are no benchmarks.
    """
    if not document.benchmarks:
        return []
    grouping = group(document)
    order = _in_order([benchmark.name for benchmark in document.benchmarks], document)
    members = [
        [
            Entry(benchmark.name),
            Entry(units.exact(benchmark.questions), order=benchmark.questions),
            Entry(units.exact(benchmark.pictures), order=benchmark.pictures),
            Entry(units.span(*benchmark.visual_tokens)),
        ]
        for benchmark in sorted(document.benchmarks, key=lambda benchmark: order.index(benchmark.name))
    ]
    questions = Table(
        f"Questions by {grouping}", (grouping, "questions", "pictures", "visual tokens"), members, compact=True
    )
    curves = shares(document)
    if len(curves) == 1:
        return [questions]
    counts = {ALL: [layer.above_mean for layer in document.layers]} | {
        name: [layer.above_mean_by_benchmark[name] for layer in document.layers] for name in curves if name != ALL
    }
    return [
        questions,
        _by_layer(f"Share of visual tokens above the mean saliency, by {grouping}", curves),
        _by_layer(f"Number of visual tokens above the mean saliency, by {grouping}", counts, detail=True),
    ]


def _by_layer(
    caption: str, columns: Mapping[str, Sequence[TokenShare]] | Mapping[str, Sequence[Count]], *, detail: bool = False
) -> Table:
    """A row for each layer, a column for each benchmark."""
    rows = [
        [Entry(str(layer)), *map(above_entry, of_layer)]
        for layer, of_layer in enumerate(zip(*columns.values(), strict=True), start=1)
    ]
    return Table(caption, ("layer", *columns), rows, detail=detail)


def above_entry(estimate: TokenShare | Count | None) -> Entry:
    """A share or a count with its interval."""
    if estimate is None:
        return entries.NOTHING
    within = units.count_within if isinstance(estimate, Count) else units.percent_within
    return Entry(within(estimate.value, estimate.ci95), order=estimate.value)
