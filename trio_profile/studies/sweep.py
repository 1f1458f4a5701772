"""The kind `sweep`: each method at each retention, timed in turn with the dense model."""

from pathlib import Path

from trio_profile.progress import Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Study
from trio_profile.studies import sessions


def run(study: Study, directory: Path, watch: Watch = ignore) -> Contents:
    """Measure the cells that the directory does not hold yet.

    The errors are those of `sessions.run`. If a method refuses a cell, nothing is measured.
    """
    return sessions.run(study, directory, watch)
