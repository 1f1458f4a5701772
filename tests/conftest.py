"""For all tests: the option `--shapes` checks every shape annotation of trio_core while they run.

Whatever is missing here, such as a browser or an extra, is named once at the end, with the command that installs it.
"""

import gc
import sys

import hypothesis
import pytest

# Two shared cores may be slow at any moment: a test's time is no property of the code.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shapes", action="store_true", help="check trio_core's shape annotations at run time (jaxtyping, beartype)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Install the import hook. Raise UsageError if trio_core is imported already: its shapes would go unchecked."""
    if config.getoption("--shapes"):
        if "trio_core" in sys.modules:
            raise pytest.UsageError("--shapes: these paths import trio_core too early; choose tests by -k")
        from jaxtyping import install_import_hook

        install_import_hook("trio_core", "beartype.beartype")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped: each reason that names a way out, once."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = {reason[2].removeprefix("Skipped: ") for reason in skipped if isinstance(reason, tuple)}
    for reason in sorted(reason for reason in reasons if "install" in reason):
        terminalreporter.write_line(f"tests were skipped: {reason}")


def pytest_collection_finish() -> None:
    """Take the imported libraries out of garbage collection: they stay, and each full collection would visit them."""
    gc.collect()
    gc.freeze()
