"""Every block of code in the documentation and README.md runs, page by page.

`python -m tests.docs` lists the blocks that do not run, with what they need.
"""

import pytest

from tests.core.tiny import fast_first
from tests.docs.blocks import PAGES, ROOT, read
from tests.docs.running import run_page


@pytest.mark.parametrize(
    "path",
    fast_first(PAGES, ROOT / "README.md"),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_blocks_of_a_page_run(path, tmp_path):
    directory = tmp_path / "page"
    directory.mkdir()
    run_page(read(path), directory)
