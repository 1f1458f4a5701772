"""Other numbers of visual tokens for a study's picture: without line ends, its base crop alone, or as papers count.

A printed figure may count one of them.
"""

from trio_core.errors import TrioError
from trio_profile.cost.conventions import Prefill
from trio_profile.cost.token_counts import OtherCount, with_visual_tokens
from trio_profile.engine.plan import PlannedCell, plan_cell
from trio_profile.inputs.picture import lay_out
from trio_profile.inputs.workload import Workload
from trio_profile.judge.audit.facts import known_counts
from trio_profile.records.schema import Study


def other_counts(workload: Workload, study: Study, prefill: Prefill, cell: PlannedCell | None) -> list[OtherCount]:
    """The same prefill with each other number of visual tokens in use.

    cell: with the method of the prefill; None for the dense model. A number that its schedule refuses is left out.
    """
    found: list[OtherCount] = []
    for tokens, sources in _sources(workload).items():
        if tokens == workload.shape.visual_tokens:
            continue
        shape = prefill.shape.model_copy(update={"visual_tokens": tokens})
        visual, overhead = (tokens,) * shape.num_layers, 0
        if cell is not None:
            try:
                other = plan_cell(cell.cell, study, shape)
            except TrioError:
                continue
            visual, overhead = other.schedule.tokens_by_layer, other.fastv_overhead_macs(shape, study.gamma)
        found.append(OtherCount(with_visual_tokens(prefill, visual, overhead), "; ".join(sources)))
    return found


def _sources(workload: Workload) -> dict[int, list[str]]:
    """Who counts so, by the number of visual tokens."""
    found: dict[int, list[str]] = {}
    layout = lay_out(workload.adapter, workload.inputs)
    if layout is not None and (line_ends := sum(grid.rows for grid in layout.grids if grid.newline)):
        found[workload.shape.visual_tokens - line_ends] = [f"the picture without its {line_ends} line ends"]
        base = layout.grids[0]
        found.setdefault(base.rows * base.columns, []).append("its base crop alone")
    for tokens, sources in known_counts(workload.shape).items():
        found.setdefault(tokens, []).extend(sources)
    return found
