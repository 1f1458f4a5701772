"""The public path of the gate: the pytest plugin, and `judge_pairs` for times of your own.

In a workload's name it stands for `kinds/gate`: `trio_profile.gate:prefill`.
"""

from typing import Any

from trio_profile.kinds.gate.pytest_plugin import *  # noqa: F403 - pytest finds hooks and fixtures by their names


def __getattr__(name: str) -> Any:
    if name != "judge_pairs":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trio_profile.kinds.gate.verdict import judge_pairs  # it imports scipy, and pytest loads this module always

    return judge_pairs
