"""The marker `trio_gate`: the arguments that it takes, and what is wrong with a test's marker.

This module imports only pytest and the standard library until a marker is checked, because the plugin is loaded into
every pytest run.
"""

from difflib import get_close_matches

import pytest

LEAST_PAIRS = 12
"""The fewest pairs of runs that a verdict is based on."""
DESCRIPTION = (
    "trio_gate(quantity='run_ms', max_ratio=1.03, precision=0.01, pairs=192, seconds=120): the fixture trio_gate of"
    " this test judges this quantity. It is timed until the ratio to the base is known within `precision`, or until so"
    " many pairs or seconds are spent"
)
"""What `pytest --markers` shows."""
_ARGUMENTS = ("quantity", "max_ratio", "precision", "pairs", "seconds")


def timed() -> list[str]:
    """The quantities that are timed. With one thread, other work hardly changes `cpu_ms`, the CPU time of a run."""
    from trio_profile.quantities.registry import QUANTITIES

    return ["run_ms", "decode_ms", *(name for name, quantity in QUANTITIES.items() if quantity.phase)]


def exact() -> list[str]:
    """The quantities that are whole numbers."""
    from trio_profile.quantities.registry import QUANTITIES

    return ["kept", "selection_macs", *(quantity.gated for quantity in QUANTITIES.values() if quantity.gated)]


def fault(item: pytest.Item) -> str | None:
    """What is wrong with a test's marker; None if it is right or absent."""
    for marker in item.iter_markers():
        if marker.name == "trio_gate":
            return _marker_fault(marker) or _fixture_fault(item)
        if ("gate" in marker.name or "trio" in marker.name) and get_close_matches(marker.name, ["trio_gate"], 1, 0.8):
            return f"marker {marker.name!r} is unknown; did you mean 'trio_gate'?"
    return None


def _marker_fault(marker: pytest.Mark) -> str | None:
    if marker.args:
        return f"the marker trio_gate takes {', '.join(_ARGUMENTS)} by name, not {marker.args[0]!r}"
    for name, value in marker.kwargs.items():
        if name not in _ARGUMENTS:
            return f"the marker trio_gate has no {name!r}; it takes {', '.join(_ARGUMENTS)}"
        found = _quantity_fault(value) if name == "quantity" else _number_fault(name, value)
        if found is not None:
            return found
    return None


def _quantity_fault(value: object) -> str | None:
    if value in (known := timed() + exact()):
        return None
    near = get_close_matches(str(value), known, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"quantity {value!r} is none of {', '.join(known)}{meant}"


def _number_fault(name: str, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{name} = {value!r} is no number"
    if name == "max_ratio" and not 1 <= value <= 10:
        return f"max_ratio = {value!r} is no bound: choose one from 1 to 10, such as 1.03"
    if name == "precision" and not 0 < value < 1:
        return f"precision = {value!r} must lie between 0 and 1"
    if name == "pairs" and not (isinstance(value, int) and value >= LEAST_PAIRS):
        return f"pairs = {value!r} is too few: a verdict needs {LEAST_PAIRS}"
    if name == "seconds" and not 0 < value < float("inf"):
        return f"seconds = {value!r} is no time"
    return None


def _fixture_fault(item: pytest.Item) -> str | None:
    if "trio_gate" not in getattr(item, "fixturenames", ()):
        return "it has the marker trio_gate and does not ask for the fixture trio_gate: nothing would be judged"
    return None
