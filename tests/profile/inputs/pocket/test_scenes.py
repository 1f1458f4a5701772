"""Pictures whose truth is known: what the task rests on."""

from itertools import combinations

import numpy as np

from trio_profile.inputs.pocket.scenes import CELL, COLOURS, FEWEST, MOST, PROPERTIES, SIDE, render, scene

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
