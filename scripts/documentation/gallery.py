"""The reports of the gallery: the page of each published study that docs/gallery.md links to."""

import re
from pathlib import Path


def studies(root: Path) -> list[str]:
    """The studies that the gallery links to, such as `reports/pocket/compare`, in its order.

    root: the root of the repository.
    """
    return re.findall(r"\]\((reports/[\w./-]+)\.html\)", (root / "docs" / "gallery.md").read_text(encoding="utf-8"))


def write_reports(root: Path, site: Path) -> None:
    """Write the page of each of these studies into the site.

    site: the folder of the built site.
    """
    from trio_profile.study.running import write_report_again

    for study in studies(root):
        page = site / f"{study}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        write_report_again(root / study, page, None)
