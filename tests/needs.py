"""Packages that a machine may lack. `conftest.py` prints the reason of a skip once, after all tests."""

from typing import Any

import pytest


def package(name: str, extra: str) -> Any:
    """Return a module, or skip the test.

    name: of the module.
    extra: the extra of trio-profile that installs it.
    """
    missing = name.partition(".")[0]
    return pytest.importorskip(name, reason=f"no {missing}: pip install --editable '.[{extra}]'")
