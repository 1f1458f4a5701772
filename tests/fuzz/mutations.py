"""Ways to spoil a file or a value. Each takes a random generator, so that a seed gives the same files again."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NASTY_TEXTS = (
    *("", " ", "0", "-1", "1", "nan", "inf", "-inf", "1e999", "1e-320", "0.5,", ",,,", "½", "٣", "0x10", "1_0"),
    *("9" * 25, "9" * 5000, "-" * 3, "a" * 300, "a/" * 2000, "../" * 40, "~", ".", "..", "/", "/dev/null", "/dev/zero"),
    *("[red]x[/red]", "[/]", "\x1b[31mred\x1b[0m", "\x07", "a\nb", "a\rb", "\u202egnp.exe", "\u2028", "é" * 200, "💥"),
    *("{}", "[]", "null", "true", "[" * 5000, '{"a":' * 300, "%s%n", "${HOME}", "$(id)", "`id`", "; ls", "--", "-o"),
    *("a=b=c", "=", "a=", "=1", "k_pos=[[1]]", "threshold=1e999", "threshold=" + "9" * 5000, "budget_rule=\x1b[2J"),
    *("no.such:Thing", "sys:exit", "os:getcwd", ":", "a:b:c", "trio\x1b[1m", "cuda:99", "meta", "mps", "pocket\u202e"),
)
"""Values for an option, an argument or a field."""

NASTY_VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, 0.0, -0.5, 1e-320, 1e308, -1e308),
    *(float("inf"), float("nan"), "", "x", "9" * 5000, "\x1b[31m", "[red]", "\u202e", "\n"),
    *([], {}, [[]], [None], [0, 0]),
    *({"": ""}, {"median": 0, "ci95": [0, 0], "samples": 0}, ["a"] * 3, "NaN", "\ud800", "trio", "done", 10**18),
)
"""Values for a place in a JSON document."""


def spoiled_text(raw: bytes, rng: random.Random) -> bytes:
    """The bytes of a file with one to three of the changes below."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        raw = rng.choice(BYTE_CHANGES)(raw, rng)
    return raw


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _flip(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randrange(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw) + 1)
    pieces = b'\x00|\xff\xfe|\xef\xbb\xbf|\x1b[31m|\n\n|}|]|"|&a *a|!!python/object'.split(b"|")
    pieces += [b"[" * 100, b"[" * 20_000, b'{"a":' * 20_000, b"9" * 5000, b"x" * 200_000]
    pieces += ["\u202e".encode(), b"\xed\xa0\x80"]
    return raw[:place] + rng.choice(pieces) + raw[place:]


def _remove(raw: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(raw) + 1)
    return raw[:start] + raw[start + rng.randrange(40) :]


def _number(raw: bytes, rng: random.Random) -> bytes:
    """Another number in the place of one."""
    places = [i for i, byte in enumerate(raw) if 48 <= byte <= 57]
    if not places:
        return raw
    place = rng.choice(places)
    others = (*b"-1 0".split(), b"9" * 30, b"9" * 5000, *b'1e999 -1e308 NaN nan inf 0.0 "7" 1.2.3'.split())
    return raw[:place] + rng.choice(others) + raw[place + 1 :]


def _recode(raw: bytes, rng: random.Random) -> bytes:
    text = raw.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32", "cp500")), "replace")


BYTE_CHANGES = (_cut, _flip, _insert, _insert, _remove, _number, _number, _recode)


def spoiled_json(raw: bytes, rng: random.Random) -> bytes:
    """A JSON document, or JSON lines, with one to three places changed. Spoiled as bytes if it is neither."""
    lines = raw.split(b"\n")
    whole = is_json(raw)
    place = 0 if whole else rng.randrange(len(lines))
    try:
        tree = json.loads(raw if whole else lines[place])
    except ValueError:
        return spoiled_text(raw, rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        tree = _changed(tree, rng)
    text = json.dumps(tree).encode()
    if rng.random() < 0.2:  # as Python writes them: bare, which is no JSON
        text = text.replace(b'"NaN"', b"NaN")
    if whole:
        return text
    lines[place] = text
    return b"\n".join(lines)


def is_json(text: str | bytes) -> bool:
    """Whether a text is one JSON document."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _changed(tree: Any, rng: random.Random) -> Any:
    """The tree with one place replaced, removed, repeated or renamed."""
    everywhere = list(places(tree))
    if not everywhere:
        return rng.choice(NASTY_VALUES)
    holder, key = rng.choice(everywhere)
    action = rng.random()
    if action < 0.6:
        holder[key] = rng.choice(NASTY_VALUES)
    elif action < 0.75:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(holder[key])))
    else:
        holder[rng.choice(NASTY_TEXTS)] = holder.pop(key)
    return tree


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of a document: what holds it, and its key there."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from places(tree[key])


def put_odd_file(path: Path, rng: random.Random) -> None:
    """Put something in a file's place that is no regular file, or nothing."""
    path.unlink()
    kind = rng.randrange(5)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind < 4:
        path.symlink_to((path.name, "/dev/zero")[kind - 2])
