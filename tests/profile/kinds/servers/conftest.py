"""Pictures for studies of servers."""

from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture(scope="session")
def small_pictures(tmp_path_factory) -> Path:
    """A directory of small pictures, which are made faster than drawn ones."""
    directory = tmp_path_factory.mktemp("pictures")
    for number in range(8):
        Image.radial_gradient("L").rotate(10 * number).resize((96, 96)).save(directory / f"{number}.png")
    return directory
