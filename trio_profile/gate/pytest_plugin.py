"""The gate as a pytest plugin: a marker, a fixture that builds on pytest-benchmark's, and an option.

    @pytest.mark.trio_gate(quantity="prefill_ms", max_ratio=1.03)
    def test_pruned_prefill(trio_gate):
        trio_gate("trio_profile.gate.rivals:prefill", method="trio", retention=0.11)

    pytest --trio-gate-base main        times this tree and `main` in turn, and fails on a regression

pytest loads this plugin into every run, wherever the package is installed. So it imports only pytest and the standard
library until a gate is used.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest

from trio_profile.gate import marker
from trio_profile.gate.fixture import TREES, VERDICTS, Gate

_BAD_INPUT = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a base."""
    group = parser.getgroup("trio-profile", "gates of trio-profile")
    group.addoption(
        "--trio-gate-base",
        metavar="REV",
        help="Compare the workloads of trio_gate with this revision of the repository. It is checked out into a "
        "directory of its own, and both are timed in turn.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. End the run if the base does not exist."""
    config.addinivalue_line("markers", marker.DESCRIPTION)
    config.stash[VERDICTS] = []
    config.stash[TREES] = ExitStack()
    if (revision := config.getoption("trio_gate_base", None)) is not None:
        from trio_profile.errors import ProfileError
        from trio_profile.gate.rivals import commit_of
        from trio_profile.process import prepare

        prepare()  # before a test imports torch
        try:
            commit_of(config.rootpath, revision)
        except ProfileError as error:
            _refuse(f"--trio-gate-base: {error}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the base's directory."""
    if (trees := config.stash.get(TREES, None)) is not None:
        trees.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """End the run before any test if a gate is wrong and could not judge, or if pytest-benchmark is missing."""
    for item in items:
        if "trio_gate" in getattr(item, "fixturenames", ()) and not config.pluginmanager.hasplugin("benchmark"):
            _refuse(f"{item.nodeid}: trio_gate needs the extra 'gate': pip install 'trio-profile[gate]'")
        if fault := marker.fault(item):
            _refuse(f"{item.nodeid}: {fault}")


@pytest.fixture
def trio_gate(request: pytest.FixtureRequest, benchmark: Any) -> Iterator[Gate]:
    """A gate that judges the workload or function that the test gives to it; see `Gate`."""
    mark = request.node.get_closest_marker("trio_gate")
    gate = Gate(request.config, request.node.nodeid, benchmark, mark.kwargs if mark else {})
    yield gate
    gate.finish()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each verdict. A pass, too, says what it is based on."""
    if verdicts := config.stash[VERDICTS]:
        from trio_profile.gate.verdict import sentence

        terminalreporter.section("trio gates")
        for verdict in verdicts:
            terminalreporter.write_line(sentence(verdict))


def _refuse(message: str) -> NoReturn:
    """End the run as bad input: one line, and no test has passed."""
    pytest.exit(f"trio_gate: {' '.join(message.split())}", returncode=_BAD_INPUT)
