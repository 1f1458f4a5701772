"""A small kept study of every kind. That of a kind is in `kept.py` of the kind's tests, and is found there."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from trio_profile.study.kinds import KINDS


def _search() -> dict[str, Callable[[Path], object]]:
    kept: dict[str, Callable[[Path], object]] = {}
    for file in (Path(__file__).parent / "kinds").glob("*/kept.py"):
        kept |= import_module(f"tests.profile.kinds.{file.parent.name}.kept").KEPT
    return {kind: kept[kind] for kind in KINDS}


KEPT = _search()
"""By kind, in the order of the help: puts a study of this kind into a directory, as `--out` does."""
