"""The public path of `kinds/gate`: its pytest plugin, and `judge_pairs` for times of your own.

In a workload's name it stands for the default workload: `trio_profile.gate:prefill`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "judge_pairs":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trio_profile.kinds.gate.verdict import judge_pairs  # it imports scipy, and pytest imports this module always

    return judge_pairs
