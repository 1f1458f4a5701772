"""A study and its cells."""

from hashlib import sha256

from tests.profile.studying import make
from trio_profile.records.schema import Cell


def test_a_cell_without_options_keeps_the_id_of_older_records():
    """What every store before has it by: of its JSON at that time."""
    then = sha256(b'{"method":"trio","retention":0.11}').hexdigest()
    assert Cell(method="trio", retention=0.11).id == then[:12]
    assert Cell(method="trio", retention=0.11, options={"k_pos": 1}).id != Cell(method="trio", retention=0.11).id


def test_cells_are_methods_times_retentions_without_repeats():
    study = make(methods=("trio", "grid"), retentions=(0.5, 0.2, 0.5))
    assert [(c.method, c.retention) for c in study.cells()] == [
        ("trio", 0.2),
        ("trio", 0.5),
        ("grid", 0.2),
        ("grid", 0.5),
    ]
