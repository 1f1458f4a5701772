"""Frames worked by hand: what is left, where it lies, and the library's masks and positions cut to it."""

import torch

from trio_core.engine.frames import Frame, cut_mask, shrink
from trio_core.methods.view import Picture
from trio_core.rules.schedule import Schedule


def picture(rows: list[int]) -> Picture:
    schedule = Schedule((1,), (1,), len(rows), 2)
    return Picture(torch.tensor(rows), torch.arange(len(rows)), len(rows), 0, schedule)


def kept(*indices: int) -> torch.Tensor:
    return torch.tensor(indices)


def two_samples() -> tuple[torch.Tensor, Frame, tuple[Picture, ...]]:
    """T v v v T and, shorter by one padding at its left, . v v T T; the first keeps one token, the second both."""
    valid = torch.tensor([[True] * 5, [False] + [True] * 4])
    return shrink(Frame.of_all(valid), (picture([1, 2, 3]), picture([1, 2])), (kept(1), kept(0, 1)), lengths=(3, 4))


def test_text_stays_and_the_longest_sample_sets_the_width():
    rows, frame, pictures = two_samples()
    # Sample 0 keeps places 0, 2, 4 and is filled with a dropped token, the first one.
    assert rows.tolist() == [[0, 1, 2, 4], [1, 2, 3, 4]]
    assert frame.valid.tolist() == [[True, False, True, True], [True] * 4]
    assert frame.hides
    assert frame.dropped.tolist() == [2, 0]
    assert [p.rows.tolist() for p in pictures] == [[2], [0, 1]]
    assert [p.number.tolist() for p in pictures] == [[1], [0, 1]]


def test_a_second_shrink_still_speaks_of_the_full_sequence():
    _, frame, pictures = two_samples()
    rows, smaller, left = shrink(frame, pictures, (kept(0), kept(1)), lengths=(3, 3))
    assert rows.tolist() == [[0, 2, 3], [1, 2, 3]]
    assert smaller.index.tolist() == [[0, 2, 4], [2, 3, 4]]
    assert smaller.dropped.tolist() == [2, 1]
    assert not smaller.hides
    assert [p.number.tolist() for p in left] == [[1], [1]]


def test_padding_fills_before_dropped_tokens_do():
    valid = torch.tensor([[False] + [True] * 4, [True] * 5])
    pictures = picture([1, 2, 3]), picture([1, 2, 3])
    rows, frame, _ = shrink(Frame.of_all(valid), pictures, (kept(0), kept(0)), lengths=(2, 3))
    assert rows.tolist() == [[0, 1, 4], [0, 1, 4]]
    assert frame.valid.tolist() == [[False, True, True], [True] * 3]


def test_a_boolean_mask_is_cut_on_both_sides_and_hides_fillers_from_all_but_themselves():
    _, frame, _ = two_samples()
    causal = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    cut = cut_mask(frame, causal, torch.zeros(2, 4, 8), later=0, attention="sdpa")
    assert cut[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
    assert cut[1, 0].int().tolist() == torch.ones(4, 4).tril().int().tolist()
    # Where the library made no mask, ours is the same.
    assert torch.equal(cut_mask(frame, None, torch.zeros(2, 4, 8), later=0, attention="sdpa"), cut)


def test_a_decode_mask_keeps_the_columns_of_what_came_since():
    _, frame, _ = two_samples()
    row = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    cut = cut_mask(frame, row, torch.zeros(2, 1, 8), later=2, attention="sdpa")
    assert cut[:, 0, 0].int().tolist() == [[1, 0, 1, 1, 1, 1], [1] * 6]
    assert torch.equal(cut_mask(frame, None, torch.zeros(2, 1, 8), later=2, attention="sdpa"), cut)
    flash = cut_mask(frame, torch.ones(2, 7, dtype=torch.long), torch.zeros(2, 1, 8), later=2, attention="flash")
    assert flash.tolist() == cut[:, 0, 0].int().tolist()


def test_an_additive_mask_hides_with_the_least_number_of_its_type():
    _, frame, _ = two_samples()
    cut = cut_mask(frame, torch.zeros(2, 1, 1, 6), torch.zeros(2, 1, 8), later=1, attention="eager")
    assert cut[0, 0, 0].tolist() == [0, torch.finfo(torch.float32).min, 0, 0, 0]
