"""The releases of transformers that pruning was tested on."""

import pytest

from trio_core import releases


@pytest.mark.parametrize(
    ("version", "tested"),
    (
        ("5.23.0", True),
        ("5.24.3", True),
        ("5.25.0", False),
        ("6.0.0", False),
        ("5.22.2", False),
        ("5.24.0.dev0", False),
    ),
)
def test_a_release_is_tested_by_its_first_two_numbers(monkeypatch, version, tested):
    monkeypatch.setattr(releases, "version", lambda _: version)
    assert releases.is_tested() is tested
