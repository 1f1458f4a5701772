"""Pictures whose truth is known: what the task rests on."""

from itertools import combinations

import numpy as np
import pytest

from trio_profile.inputs.pocket.scenes import CELL, COLOURS, FEWEST, GRID, MOST, PROPERTIES, SIDE, VALUES, render, scene

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_things_agree_in_two_properties(seed: int):
    """A name of two properties is a name; and no thing can be told by one, since others share it."""
    things = scene(seed).things
    assert FEWEST <= len(things) <= MOST
    for one, other in combinations(things, 2):
        assert sum(one[of] == other[of] for of in PROPERTIES) < 2
        assert one.cell != other.cell


def test_properties_are_shared_by_several():
    shared = [
        sum(other[of] == thing[of] for other in scene(seed).things) - 1
        for seed in SEEDS
        for thing in scene(seed).things
        for of in PROPERTIES
    ]
    assert np.mean(shared) > 1.5


def test_a_thing_covers_two_by_two_patches_of_its_cell():
    thing = scene(3).things[0]
    rows, columns = zip(*(divmod(patch, SIDE // 8) for patch in thing.patches()), strict=True)
    assert sorted(set(rows)) == [2 * thing.cell[0], 2 * thing.cell[0] + 1]
    assert sorted(set(columns)) == [2 * thing.cell[1], 2 * thing.cell[1] + 1]
    assert max(thing.cell) < GRID


def test_the_picture_shows_each_thing_in_its_colour_where_it_is():
    shown = scene(7)
    pixels = np.asarray(render(shown)).astype(int)
    assert pixels.shape == (SIDE, SIDE, 3)
    for thing in shown.things:
        row, column = (CELL * at for at in thing.cell)
        cell = pixels[row : row + CELL, column : column + CELL].reshape(-1, 3)
        near = np.abs(cell - COLOURS[thing.colour]).max(axis=1) < 40
        assert near.mean() > 0.15, thing


def test_no_patch_holds_a_whole_digit():
    from trio_profile.inputs.pocket.scenes import _INK, _sprite

    for digit in VALUES["digit"]:
        colours, covers = _sprite("white", "square", digit)
        ink = covers & (colours == _INK).all(axis=-1)
        halves = [ink[:8, :8], ink[:8, 8:], ink[8:, :8], ink[8:, 8:]]
        assert sum(half.any() for half in halves) >= {"1": 2, "7": 3}.get(digit, 4), digit


def test_the_ground_is_not_plain_and_the_seed_decides():
    one, again, other = render(scene(1)), render(scene(1)), render(scene(2))
    assert one.tobytes() == again.tobytes() != other.tobytes()
    patches = np.asarray(one).reshape(24, 8, 24, 8, 3).swapaxes(1, 2).reshape(576, -1)
    assert (patches.std(axis=1) > 4).all()
