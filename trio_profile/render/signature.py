"""Whether a page was written by trio-profile. A page that was not is never overwritten."""

import re
from pathlib import Path

from trio_profile.errors import StoreError
from trio_profile.reading import open_regular
from trio_profile.records.schema import FORMAT
from trio_profile.records.writing import require_regular

_HEAD_BYTES = 16 * 1024
"""The signature stands before the style, within the first bytes of a page."""
_GENERATOR = re.compile(rf'<meta name="generator" content="{re.escape(FORMAT)} format [^"]*">')
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)
_OLD_TITLE = f" – {FORMAT}</title>"
"""Pages without a generator have this policy, followed by a title that ends so."""


def is_ours(path: Path) -> bool:
    """Whether a file may be replaced by a page: it is a page of trio-profile, or it is empty.

    Raises StoreError if it cannot be read, or if it is no regular file.
    """
    require_regular(path)
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    return not head or bool(_GENERATOR.search(head)) or _OLD_TITLE in head.partition(_POLICY)[2]


def require_ours(path: Path) -> None:
    """Raise StoreError if there is a file of this name that trio-profile did not write."""
    try:
        exists = path.exists()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if exists and not is_ours(path):
        raise StoreError(f"{path} was not written by trio-profile and is kept: move it, or choose another --out")
