"""What docs/reference/support.md says before its tables of setups: `introduction.md`, with the families filled in."""

from pathlib import Path

from trio_core.models import families
from trio_core.models.adapter import Adapter


def _families() -> str:
    """A row for each family: its name, its classes, and whether methods can look into its vision tower."""
    rows = []
    for name, adapter in sorted(families.items(), key=lambda item: item[0].lower()):
        classes = ", ".join(f"`{one}`" for one in adapter.classes)
        rows.append(f"| {name} | {classes} | {'work' if adapter.tower is not Adapter.tower else 'refused'} |")
    return "\n".join(rows)


INTRODUCTION = Path(__file__).with_suffix(".md").read_text().replace("FAMILIES", _families())
"""The page up to its tables of setups."""
