"""The kind `sweep`: each method at each retention, timed in turn with the dense model."""

from pathlib import Path

from trio_profile.engine import local
from trio_profile.progress import Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Study


def run(study: Study, directory: Path, watch: Watch = ignore) -> Contents:
    """Measure the cells that the directory does not hold yet.

    The errors are those of `local.run`. If a method refuses a cell, nothing is measured.
    """
    return local.run(study, directory, watch)
