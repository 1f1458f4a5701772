"""Readers of stored documents in which values changed that still have their types: what passes for a study.

`cases.py` spoils files in any way, and the form of most of them is refused. Here the form mostly stays.
"""

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from shutil import copy, copytree
from statistics import median
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.fuzz.cases import Case
from tests.fuzz.mutations import places
from tests.places import REPORTS
from tests.profile.cli.test_gate import benchmark_file
from tests.profile.kept import KEPT
from trio_profile.inputs.claims.claims import BUILTIN, TEMPLATE
from trio_profile.records.files import MEASUREMENTS

INTEGERS = (0, 0, 1, 2, 3, 64, 2**31, 2**53, 2**63 - 1, -1)
FLOATS = (0.0, 0.0, 5e-324, 1e-300, 1e-9, 1e-3, 0.5, 1.0, 3.0, 1e9, 1e12, 1e300, 1.7e308, -1.0, -1e300)
TEXTS = ("", "x", "0", "unheard-of", "a / b", "a; b, c", "1e400", "trio", "dense", "none", "é💥", "\u202e", "a" * 300)
FIGURES = ("0", "1", "0.5", "1.00", "99.9", "576", "1e12", "0.000001", "123456789012345678901234", "-3")
"""Texts in the place of a printed figure."""
STRANGERS = (None, True, 1, 0.5, "x", [], {}, [0.5, 0.5])
"""Values of another type, which a field may allow too."""
READERS = (
    *(("show",), ("show", "--all"), ("show", "--json"), ("show", "--markdown"), ("show", "--latex"), ("report",)),
    *(("export", "--format", form) for form in ("md", "latex", "csv", "json")),
    *(("export", "--format", "parquet", "--out", "rows.parquet"), ("export", "--format", "csv", "--requests")),
)
"""The readers of every kind."""
OF_CELLS = (
    *(("show", "--doubts"), ("show", "--doubts", "--json"), ("gate",), ("gate", "--counts", "--json"), ("audit",)),
    *(("export", "--format", "csv", "--pairs"), ("export", "--format", "json", "--pairs")),
)
"""The readers of studies that are measured cell by cell."""


class Stored:
    """Good files of every kind, of which each case changes a copy.

    directory: where they are kept.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        for kind, put in KEPT.items():
            (directory / kind).mkdir()
            put(directory / kind)
        for name, study in PUBLISHED.items():
            copytree(REPORTS / study, directory / name)
        benchmark_file(directory / "bench.json")
        for path in (TEMPLATE, *BUILTIN.glob("*.yaml")):
            claims = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
            (directory / f"{path.stem}.claims").write_text(json.dumps(claims))


PUBLISHED = {"answers": "pocket/seed-0", "variants": "pocket/ablate", "servers": "engines/openvino-80"}
"""Published studies, with questions and answers."""
KINDS = (*KEPT, *PUBLISHED, "bench", "claims")


@st.composite
def cases(draw: st.DrawFn, stored: Stored, kind: str, place: Path) -> Case:
    """A reader of a changed file. The files are put into `place`, which is empty."""
    rng = draw(st.randoms(use_true_random=True))  # every place of a document is as likely as any other
    if kind == "bench":
        base, new = stored.directory / "bench.json", Path(copy(stored.directory / "bench.json", place / "new.json"))
        change(new, rng)
        if rng.random() < 0.7:
            agree(new)
        sides = rng.sample([str(base), str(new)], 2)
        return Case(("gate", *sides, *rng.choice(((), ("--json",), ("--allow-other-environment",)))), judges=True)
    if kind == "claims":
        claims = Path(copy(rng.choice(sorted(stored.directory.glob("*.claims"))), place / "claims.yaml"))
        change(claims, rng)
        return Case(("audit", str(claims), *rng.choice(((), ("--json",), ("--markdown",)))))
    kept = copytree(stored.directory / kind, place / "kept")
    change(rng.choice([path for path in sorted(kept.iterdir()) if path.suffix in (".json", ".jsonl")]), rng)
    verb, *options = rng.choice(READERS + OF_CELLS * (kept / MEASUREMENTS).is_file())
    if verb == "gate":
        return Case(("gate", *rng.sample([str(kept), str(stored.directory / kind)], 2), *options), judges=True)
    if verb == "audit":
        return Case(("audit", "trio-2026", "--measured", str(kept)))
    return Case((verb, str(kept), *options))


def change(path: Path, rng: Random) -> None:
    """Change one to three places of a file of JSON or of a line of JSON lines, where it lies."""
    text = path.read_text()
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    place = rng.randrange(len(lines))
    tree = json.loads(lines[place])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        everywhere = list(places(tree))
        holder, key = rng.choice(everywhere)
        action = rng.random()
        if action < 0.7:
            holder[key] = another(holder[key], rng)
        elif action < 0.9:  # the value of another place
            alike = [there[name] for there, name in everywhere if type(there[name]) is type(holder[key])]
            holder[key] = json.loads(json.dumps(rng.choice(alike)))
        elif len(everywhere) > 1:
            del holder[key]
    lines[place] = json.dumps(tree)
    path.write_text("\n".join(lines) + "\n")


def agree(path: Path) -> None:
    """Let the count and the median of a benchmark agree with its times again, where it still has some."""
    file = json.loads(path.read_text())
    with suppress(LookupError, TypeError, ValueError):
        stats = file["benchmarks"][0]["stats"]
        stats |= {"rounds": len(stats["data"]), "median": median(stats["data"])}
    path.write_text(json.dumps(file))


def another(value: Any, rng: Random) -> Any:
    """Another value of the same type; of a list another length or order, of a table another name."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice(INTEGERS)
        case float():
            return rng.choice(FLOATS)
        case str():
            return rng.choice(FIGURES if value.replace(".", "").isdecimal() else TEXTS)
        case list():
            return rng.choice(([], value[:1], value[1:], value[::-1], value + value[:1]))
        case dict() if value:
            name = rng.choice(sorted(value))
            return {rng.choice(TEXTS) if key == name else key: held for key, held in value.items()}
    return rng.choice(STRANGERS)
