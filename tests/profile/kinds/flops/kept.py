"""A kept study of `flops`."""

from functools import cache
from pathlib import Path

from tests.profile.studying import make
from trio_profile.records.documents import write_document
from trio_profile.records.record import Record


@cache
def _counted() -> Record:
    """The dense model's work, counted without weights."""
    from trio_profile.kinds.flops import run as flops

    return flops.run(make("flops", device="meta"))


def _keep(directory: Path) -> None:
    write_document(directory / "flops.json", _counted())


KEPT = {"flops": _keep}
