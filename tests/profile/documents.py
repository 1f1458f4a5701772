"""Sweeps in several processes and with tokens.

swept()                a sweep in four processes
with_tokens(sweep)     the same sweep with a photograph of 576 tokens
keep(DIR, study, cells)  keeps cells in the sessions that they name
"""

import io
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.profile import examples
from trio_profile.kinds.grid.document import CellTokens, TokenMaps
from trio_profile.kinds.grid.sweep import SweepDocument, summarise
from trio_profile.records.schema import Cell, Environment, Measurement, Picture, Study, TokenGrid
from trio_profile.records.store import Store

# --- several processes -----------------------------------------------------------------------------------------------


def swept(
    *, factor: float = 1.0, processes: int = 4, retentions=(0.11, 0.55), seed: int = 0, **fields
) -> SweepDocument:
    """A sweep in several processes. factor: how many times as long the pruned runs take."""
    asked = examples.study(retentions=retentions, **fields)
    cells = []
    for retention in retentions:
        timings = []
        for number in range(processes):
            one = examples.slowed(examples.measurement(retention=retention, pairs=12, seed=10 * seed + number), factor)
            timings.append(one.timings[0].model_copy(update={"session": f"{number}"}))
        cells.append(examples.measurement(retention=retention).model_copy(update={"timings": tuple(timings)}))
    sessions = [examples.session(id=f"{number}", environment=examples.environment()) for number in range(processes)]
    rounds = examples.rounds_of(*cells)
    return summarise(examples.contents_of(asked, cells, examples.dense(), sessions, rounds))


# --- tokens of the usual size ----------------------------------------------------------------------------------------


def photograph() -> Picture:
    """A picture of 24 × 24 tokens, in a file of the largest size that a study keeps: about 45 kB."""
    small = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize((448, 448), Image.Resampling.BICUBIC).save(file, format="JPEG", quality=70)
    image = f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
    return examples.picture(visual_tokens=576, grids=(TokenGrid(rows=24, columns=24),), image=image)


def with_tokens(found: SweepDocument) -> SweepDocument:
    """The same sweep with a photograph, and with the tokens that each cell keeps of it."""
    cells = [
        CellTokens(
            cell=Cell(method=cell.method, retention=cell.nominal_retention),
            realised=cell.nominal_retention,
            kept=examples.kept(*cell.budgets, tokens=576, scored=3),
        )
        for cell in found.cells
        if cell.budgets
    ]
    return found.model_copy(update={"tokens": TokenMaps(picture=photograph(), cells=tuple(cells))})


# --- kept studies ----------------------------------------------------------------------------------------------------


def keep(
    directory: Path, study: Study, cells: Iterable[Measurement], *, where: Environment | None = None, **fields: Any
) -> Store:
    """Keep cells as a sweep would, with their rounds, in the sessions that they name.

    where: their machine. fields: further ones of the sessions.
    """
    store, cells = Store(directory), list(cells)
    named = [timing.session for cell in cells for timing in cell.timings]
    for name in dict.fromkeys([examples.SESSION, *named]):
        store.open(study, examples.session(id=name, environment=where or examples.environment(), **fields))
    timed = [cell for cell in cells if cell.status == "done"]
    counted = [examples.counted(cell) if cell in timed else cell for cell in cells]
    for record in (examples.dense(), *counted, *examples.rounds_of(*timed)):
        store.append(record)
    return store
