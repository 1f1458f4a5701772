"""The releases of transformers that pruning was tested on. The bounds in `pyproject.toml` allow these and no others."""

from packaging.version import Version
from transformers import __version__ as version

TESTED = ("5.23", "5.24")
"""The first two numbers of each, oldest first."""
USE_TESTED = f"use a tested release of transformers ({' or '.join(TESTED)})"
"""The way out that an error names."""
KNOWN = f"prune() knows the models of transformers {' and '.join(TESTED)} as they are"
"""The end of an error about a model that calls its parts in another way."""


def installed() -> str:
    """The release of the transformers that runs, as TESTED names it. One that is not out yet has its whole version.

    The code itself is asked. The metadata of the environment may be of another copy than that on PYTHONPATH.
    """
    release = Version(version)
    return str(release) if release.is_prerelease else f"{release.major}.{release.minor}"


def is_tested() -> bool:
    """Whether the installed transformers is of a tested release."""
    return installed() in TESTED
