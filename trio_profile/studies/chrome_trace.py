"""The measured prefills as trace events, which Perfetto and Chrome open."""

from collections.abc import Mapping, Sequence
from typing import Any

from trio_profile.studies.layer_samples import Round


def chrome_trace(cells: Mapping[str, Sequence[Round]]) -> dict[str, Any]:
    """Return the round of median length of each cell as trace events. Perfetto and chrome://tracing open them.

    cells: rounds by the name of the process. The dense prefill is that of the first cell.
    """
    middle = {name: sorted(rounds, key=lambda r: r.pruned.whole_ms)[len(rounds) // 2] for name, rounds in cells.items()}
    timelines = {"dense": next(iter(middle.values())).dense, **{name: found.pruned for name, found in middle.items()}}
    events: list[dict[str, Any]] = []
    for process, (name, timeline) in enumerate(timelines.items(), start=1):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
        events += [
            {
                "name": region.name,
                "cat": region.kind,
                "ph": "X",
                "pid": process,
                "tid": 1,
                "ts": 1000 * region.start_ms,
                "dur": 1000 * region.duration_ms,
                "args": {} if region.layer is None else {"layer": region.layer},
            }
            for region in timeline.regions
        ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
