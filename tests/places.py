"""Where the repository and its two packages lie, for tests that start another process."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONPATH = str(ROOT)
"""Both packages of this tree, whatever is installed."""
