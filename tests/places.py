"""Where the repository and its two packages lie, for tests that start another process."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "core")])
"""Both packages of this tree, whatever is installed."""
