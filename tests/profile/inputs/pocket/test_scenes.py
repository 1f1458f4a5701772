"""Pictures whose truth is known: what the task rests on."""

from itertools import combinations

import numpy as np

from trio_profile.inputs.pocket.scenes import CELL, COLOURS, FEWEST, MOST, PROPERTIES, SIDE, VALUES, render, scene

SEEDS = range(40)


def test_no_two_things_agree_in_two_properties():
    """A name of two properties is a name; and no thing can be told by one, since others share it."""
    for seed in SEEDS:
        things = scene(seed).things
        assert FEWEST <= len(things) <= MOST
        for one, other in combinations(things, 2):
            assert sum(one[of] == other[of] for of in PROPERTIES) < 2
            assert one.cell != other.cell


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
