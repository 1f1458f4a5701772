"""What a method may look at."""

import pytest
import torch

from tests.core import tiny
from trio_core import OptionError
from trio_core.methods.view import Picture, View
from trio_core.rules.schedule import Schedule


def view_of(valid: list[str], span: tuple[int, int] = (0, 1)) -> View:
    """`x` marks a token, `.` padding; the picture stands at the places of `span` in every sample."""
    mask = torch.tensor([[mark == "x" for mark in row] for row in valid])
    rows = torch.arange(*span)
    pictures = tuple(
        Picture(rows, torch.arange(len(rows)), 1, int(one[span[1] :].sum()), Schedule((1,), (1,), len(rows), 2))
        for one in mask
    )
    return View(1, torch.zeros(*mask.shape, 2), mask, not bool(mask.all()), pictures)


def test_the_last_rows_are_the_last_four_and_the_shifted_ones_stand_one_before():
    view = view_of(["x" * 20])
    assert view.supervised_rows(4, "last").tolist() == [[16, 17, 18, 19]]
    assert view.supervised_rows(4, "shifted").tolist() == [[15, 16, 17, 18]]
    assert view.supervised_rows(1, "last").tolist() == [[19]]


def test_padding_on_either_side_and_holes_are_no_rows():
    view = view_of(["xxxxxxxx", "x..xxxxx", "xxxxxx..", "xxx.x.xx"])
    assert view.supervised_rows(3, "last").tolist() == [[5, 6, 7], [5, 6, 7], [3, 4, 5], [4, 6, 7]]
    assert view.supervised_rows(3, "shifted").tolist() == [[4, 5, 6], [4, 5, 6], [2, 3, 4], [2, 4, 6]]


def test_all_of_the_text_may_be_supervised_and_no_more():
    view = view_of(["..xxxxxx", "xxxxxxx."], span=(2, 4))  # four words and three after the picture
    assert view.supervised_rows(3, "last").tolist() == [[5, 6, 7], [4, 5, 6]]
    for k_pos, rows in ((4, "last"), (3, "shifted"), (7, "last"), (100, "last")):
        with pytest.raises(
            OptionError, match=f"k_pos {k_pos} with rows '{rows}' .* 3 text tokens after a picture"
        ) as e:
            view.supervised_rows(k_pos, rows)
        assert "\n" not in str(e.value)


@pytest.mark.parametrize("k_pos", [0, -3])
def test_no_rows_are_refused(k_pos):
    with pytest.raises(OptionError, match=f"k_pos {k_pos}"):
        view_of(["xxxx"]).supervised_rows(k_pos, "last")


def test_features_are_the_pictures_rows():
    view = tiny.toy_view(side="right")
    for b, picture in enumerate(view.pictures):
        assert torch.equal(view.features(b), view.hidden[b, 2 : 2 + len(picture.rows)])


def test_the_probes_are_two_layers():
    view = tiny.toy_view()
    assert torch.equal(view.probed("next").hidden, view.hidden)
    assert not torch.equal(view.probed("current").hidden, view.hidden)
