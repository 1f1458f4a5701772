"""A kept study of `audit`: a published one."""

from shutil import copy

from tests.places import REPORTS

KEPT = {"audit": lambda directory: copy(REPORTS / "trio-2026" / "audit.json", directory)}
