"""What readers must know of the budgets near full retention, in sentences."""

from collections.abc import Iterator, Mapping, Sequence

from trio_profile import units
from trio_profile.analysis.ladders import IdleStage
from trio_profile.text import listed


def sentences(clamped_above: Mapping[str, float], idle: Sequence[IdleStage]) -> Iterator[str]:
    """Where budgets cannot keep their proportion, and where a stage drops next to no tokens.

    clamped_above: by method, the retention above which its budgets cannot keep their proportion.
    """
    for method, limit in clamped_above.items():
        paper = " The paper gives no budgets there." if method.startswith("trio") else ""
        yield (
            f"Above about {units.percent(limit, 0)} retention the budgets of {method} cannot keep their proportion: "
            f"the first stage keeps all tokens, and the later stages keep more.{paper}"
        )
    groups: dict[tuple[str, float], list[IdleStage]] = {}
    for stage in idle:
        if not stage.dropped:
            yield (
                f"At {units.percent(stage.nominal_retention)} the stage of {stage.method} after layer {stage.layer} "
                f"keeps all {stage.tokens} tokens, so it does not run."
            )
            continue
        groups.setdefault((stage.method, stage.nominal_retention), []).append(stage)
    for (method, retention), stages in groups.items():
        where = units.percent(retention)
        if len(stages) == 1:
            yield (
                f"At {where} the stage of {method} after layer {stages[0].layer} drops {stages[0].dropped} of "
                f"{stages[0].tokens} tokens, and pays for the scores of all."
            )
        else:
            parts = [f"{stage.dropped} of {stage.tokens} after layer {stage.layer}" for stage in stages]
            yield (
                f"At {where} {len(stages)} stages of {method} drop next to no tokens, and pay for the scores of all: "
                f"{listed(parts)}."
            )
