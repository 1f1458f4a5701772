"""The gate as a pytest plugin: a marker, a fixture that builds on pytest-benchmark's, and an option.

    @pytest.mark.trio_gate(quantity="prefill_ms", max_ratio=1.03)
    def test_pruned_prefill(trio_gate):
        trio_gate("trio_profile.gate:prefill", method="trio", retention=0.11)

    pytest --trio-gate-base main        times this tree and `main` in turn, and fails on a regression

pytest loads this plugin into every run, wherever the package is installed. So it imports only pytest and the standard
library until a gate is used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

if TYPE_CHECKING:
    from trio_profile.kinds.gate.fixture import Gate
    from trio_profile.kinds.gate.verdict import Verdict

VERDICTS = pytest.StashKey[list["Verdict"]]()
"""All verdicts of the run, for its summary."""
_BAD_INPUT = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options: the base, and what an inconclusive verdict does."""
    group = parser.getgroup("trio-profile", "gates of trio-profile")
    group.addoption(
        "--trio-gate-base",
        metavar="REV",
        help="Compare the workloads of trio_gate with this revision of the repository. It is checked out into a "
        "directory of its own, and both are timed in turn.",
    )
    group.addoption(
        "--trio-gate-inconclusive",
        choices=("pass", "fail"),
        default="pass",
        help="What an inconclusive verdict of trio_gate does to its test. Default: pass.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. End the run if the base does not exist."""
    config.addinivalue_line(
        "markers",
        "trio_gate(quantity='run_ms', max_ratio=1.03, precision=0.01, pairs=192, seconds=120): the fixture trio_gate of"
        " this test judges this quantity. It is timed until the ratio to the base is known within `precision`, or until"
        " so many pairs or seconds are spent",
    )
    config.stash[VERDICTS] = []
    if (revision := config.getoption("trio_gate_base", None)) is not None:
        from trio_profile.errors import ProfileError
        from trio_profile.kinds.gate.rivals import commit_of
        from trio_profile.process import prepare

        prepare()  # before a test imports torch
        try:
            commit_of(config.rootpath, revision)
        except ProfileError as error:
            _refuse(f"--trio-gate-base: {error}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """End the run before any test if a gate is wrong and could not judge, or if pytest-benchmark is missing."""
    for item in items:
        if "trio_gate" in getattr(item, "fixturenames", ()) and not config.pluginmanager.hasplugin("benchmark"):
            from trio_profile.installation import missing_extra

            _refuse(missing_extra(f"{item.nodeid}: trio_gate", "gate", "pytest-benchmark is not loaded"))
        if problem := fault(item):
            _refuse(f"{item.nodeid}: {problem}")


def fault(item: pytest.Item) -> str | None:
    """Why a test's marker is wrong; None if it is right or absent."""
    mark = item.get_closest_marker("trio_gate")
    if mark is None:
        return None
    if "trio_gate" not in getattr(item, "fixturenames", ()):
        return "it has the marker trio_gate and does not ask for the fixture trio_gate: nothing would be judged"
    from pydantic import ValidationError

    from trio_profile.kinds.gate.fixture import Settings
    from trio_profile.records.record import first_problem

    names = ", ".join(Settings.model_fields)
    if mark.args:
        return f"the marker trio_gate takes {names} by name, not {mark.args[0]!r}"
    try:
        Settings(**mark.kwargs)
    except ValidationError as error:
        name, message = first_problem(error)
        return f"{name} = {mark.kwargs[name]!r}: {message}; the marker trio_gate takes {names}"
    return None


@pytest.fixture(scope="session")
def trio_gate_base(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """The directory of the base, which is removed at the end of the run; None without --trio-gate-base."""
    revision = request.config.getoption("trio_gate_base")
    if revision is None:
        yield None
        return
    from trio_profile.errors import ProfileError
    from trio_profile.kinds.gate.rivals import worktree

    try:
        with worktree(request.config.rootpath, revision) as tree:
            yield tree
    except ProfileError as error:
        pytest.fail(f"trio_gate: {error}", pytrace=False)


@pytest.fixture
def trio_gate(request: pytest.FixtureRequest, benchmark: Any, trio_gate_base: Path | None) -> Iterator["Gate"]:
    """A gate that judges the workload or function that the test gives to it; see `Gate`."""
    from trio_profile.kinds.gate.fixture import Gate, Settings

    mark = request.node.get_closest_marker("trio_gate")
    settings = Settings(**mark.kwargs) if mark else Settings()
    gate = Gate(request.config, request.node.nodeid, benchmark, settings, trio_gate_base)
    yield gate
    request.config.stash[VERDICTS] += gate.verdicts
    gate.finish()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each verdict. A pass, too, says what it is based on."""
    if verdicts := config.stash[VERDICTS]:
        from trio_profile.kinds.gate.verdict import sentence

        terminalreporter.section("trio gates")
        inconclusive = cast(Any, config.getoption("trio_gate_inconclusive"))
        for verdict in verdicts:
            terminalreporter.write_line(sentence(verdict, inconclusive))


def _refuse(message: str) -> NoReturn:
    """End the run as bad input: one line, and no test has passed."""
    pytest.exit(f"trio_gate: {' '.join(message.split())}", returncode=_BAD_INPUT)
