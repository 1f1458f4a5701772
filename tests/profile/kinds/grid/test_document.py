"""Which cells have kept tokens of the study's picture."""

from tests.profile.examples import dense, failed, kept, measurement, picture, session, study
from trio_profile.kinds.grid import ablate, compare, sweep
from trio_profile.kinds.grid.document import token_maps
from trio_profile.records.contents import Contents


def contents_of(*cells, shown=None) -> Contents:
    found = Contents(study(retentions=(0.11, 0.22, 0.33)))
    for record in (session(), dense(), *([] if shown is None else [shown]), *cells):
        found.add(record)
    return found


def test_cells_with_tokens_of_this_picture_are_in_the_study_s_order():
    first, second = (measurement("trio", at).model_copy(update={"kept": kept()}) for at in (0.11, 0.22))
    other = measurement("trio", 0.33).model_copy(update={"kept": kept(tokens=4)})
    found = token_maps(contents_of(second, first, other, shown=picture()))
    assert [one.cell.retention for one in found.cells] == [0.11, 0.22]
    assert found.cells[0].realised == first.retention.realised
    assert found.picture == picture()


def test_cells_without_tokens_and_failed_cells_are_left_out():
    found = token_maps(contents_of(measurement("trio", 0.11), failed("trio", 0.22), shown=picture()))
    assert found.cells == ()


def test_an_old_study_has_no_picture():
    assert token_maps(contents_of(measurement("trio", 0.11))) is None


def test_the_documents_have_the_tokens_and_their_json_has_not():
    cell = measurement("trio", 0.11).model_copy(update={"kept": kept()})
    contents = contents_of(cell, shown=picture())
    for kind in (sweep.summarise, compare.compare, ablate.ablate):
        document = kind(contents)
        assert document.tokens == token_maps(contents)
        assert "tokens" not in document.model_dump(mode="json") and picture().image not in document.model_dump_json()
