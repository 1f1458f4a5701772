"""Kept studies of the kinds that are measured cell by cell."""

from collections.abc import Callable
from pathlib import Path

from tests.profile import examples
from tests.profile.documents import keep


def _cells(kind: str, **fields) -> Callable[[Path], None]:
    """Keeps a study that is measured cell by cell: two retentions, six rounds each."""

    def keep_cells(directory: Path) -> None:
        study = examples.study(verb=kind, retentions=(0.11, 0.55), **fields)
        seen = [examples.measurement(cell.method, cell.retention, pairs=6) for cell in study.cells()]
        pairs = zip(seen, study.cells(), strict=True)
        keep(directory, study, [one.model_copy(update={"cell": cell}) for one, cell in pairs])

    return keep_cells


KEPT = {
    "sweep": _cells("sweep"),
    "compare": _cells("compare", methods=("trio", "random")),
    "ablate": _cells("ablate", ablations={"k_pos": {"1": {"k_pos": 1}}}),
}
