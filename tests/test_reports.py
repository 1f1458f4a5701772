"""reports/: what is published there holds for every machine."""

import re

from tests.places import REPORTS

TEXTS = {".html", ".json", ".jsonl", ".md", ".toml"}


def test_published_studies_name_no_path_of_one_machine():
    """A study records its command as it was given: give --out and files relative to the repository."""
    files = [path for path in REPORTS.rglob("*") if path.suffix in TEXTS]
    found = [str(path.relative_to(REPORTS)) for path in files if re.search(r"--[a-z-]+[ =]/", path.read_text())]
    assert len(files) > 10
    assert found == []
