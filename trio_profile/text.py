"""Foreign text made safe to print: no control characters, and errors in one line. Names as a sentence lists them."""

import json
import re
from collections.abc import Sequence, Sized
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, except tab and line feed
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction marks, invisible characters
    "\ud800-\udfff\U000e0000-\U000e007f]"  # halves of a character, invisible tags
)
_NO_ASCII = re.compile("[^\x00-\x7e]")
LONGEST_LINE = 1000
"""An error line has at most this many characters."""


def printable(text: str) -> str:
    """The text with its control and direction characters written as escapes, such as `\\x1b`.

    Tabs and line feeds stay. Such characters in a name could colour the terminal, move its cursor or hide a part.
    """
    return _UNSAFE.sub(_escape, text)


def printable_json(text: str, encoding: str = "utf-8") -> str:
    """A JSON text with JSON's own escapes for the characters that `printable` escapes.

    encoding: of the stream. What it cannot encode is escaped too.
    """
    try:
        text.encode(encoding)
        signs = _UNSAFE
    except UnicodeEncodeError:
        signs = _NO_ASCII
    return signs.sub(lambda match: json.dumps(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """The text in one printable line of at most LONGEST_LINE characters. A longer one is cut in its middle."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    half = (LONGEST_LINE - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not empty. The name of its type if there is none."""
    return next((one_line(line) for line in message_of(error).splitlines() if line.strip()), type(error).__name__)


def message_of(error: BaseException) -> str:
    """The message of an error. Empty if the error cannot say it."""
    try:
        return str(error)
    except Exception:  # a foreign class may have a faulty `__str__`
        return ""


def as_text(value: Any) -> str:
    """A field of a record as text: `trio, fastv`, `k_pos = 1`. Empty for what says nothing."""
    if isinstance(value, dict):
        return ", ".join(f"{name} = {as_text(part)}" if part != {} else str(name) for name, part in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def with_option(command: str, name: str, value: str) -> str:
    """Return a command line with another value of an option. An empty value leaves the option out."""
    without = re.sub(rf" --{name}[ =]('[^']*'|\S+)", "", command)
    return f"{without} --{name} {value}" if value else without


def listed(parts: Sequence[str]) -> str:
    """Parts as a sentence lists them: `trio, grid and scope`. Empty without parts."""
    *first, last = parts or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def capital(text: str) -> str:
    """The text as a sentence begins: its first letter is a capital."""
    return text[:1].upper() + text[1:]


def are(things: Sized) -> str:
    """The verb after so many things: `is` after one, otherwise `are`."""
    return "is" if len(things) == 1 else "are"
