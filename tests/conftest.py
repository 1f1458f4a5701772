"""For all tests: the option `--shapes` checks every shape annotation of trio_core while they run."""

import gc

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
    """Install the import hook: it must be there before trio_core is imported."""
    if config.getoption("--shapes"):
        from jaxtyping import install_import_hook

        install_import_hook("trio_core", "beartype.beartype")


def pytest_collection_finish() -> None:
    """Take the imported libraries out of garbage collection: they stay, and each full collection would visit them."""
    gc.collect()
    gc.freeze()
