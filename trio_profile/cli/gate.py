"""`trio-profile gate`: has anything become worse between two studies, or two pytest-benchmark files?"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form, flag
from trio_profile.cli.exits import JUDGED_NO

if TYPE_CHECKING:
    from trio_profile.kinds.gate.evidence import Subject

_judgement = partial(flag, panel="Judgement")
MAX_RATIO = Annotated[
    float,
    _judgement("--max-ratio", "The largest allowed ratio new / base of a timed quantity. Default: 1.03."),
]
QUANTITY = Annotated[
    list[str] | None,
    _judgement("--quantity", "Judge this quantity only. Repeat it for several. Default: all."),
]
COUNTS = Annotated[bool, _judgement("--counts", "Judge the whole numbers only, not the times.")]
INCONCLUSIVE = Annotated[
    Literal["pass", "fail"],
    _judgement(
        "--inconclusive",
        "What an inconclusive verdict does to the exit code: pass leaves it 0, fail makes it 1. Default: pass.",
    ),
]
OTHER_ENVIRONMENT = Annotated[
    bool, _judgement("--allow-other-environment", "Also compare sides that were measured on different machines.")
]


def command(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", help="The old side: a study's directory, or a pytest-benchmark JSON.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The new side: the same sort of directory or file.")],
    max_ratio: MAX_RATIO = 1.03,
    quantity: QUANTITY = None,
    counts: COUNTS = False,
    inconclusive: INCONCLUSIVE = "pass",
    allow_other_environment: OTHER_ENVIRONMENT = False,
    *,
    form: Form,
) -> None:
    """Judge what became worse between two studies, or two pytest-benchmark files.

    Exits with 1 if a quantity regressed (or is inconclusive, with --inconclusive fail), and with 2 if no verdict is
    possible.
    """
    from trio_profile.kinds.gate.document import GateDocument, conclude
    from trio_profile.kinds.gate.evidence import compare
    from trio_profile.kinds.gate.report import report
    from trio_profile.kinds.gate.verdict import failures

    before, after = _read(base), _read(new)
    if counts:
        before.leave_out_times()
    verdicts = compare(
        before, after, max_ratio=max_ratio, quantities=tuple(quantity or ()), other_environment=allow_other_environment
    )
    printing.warn(f"{where} failed in {base} and is not compared" for where in before.failed)
    document = GateDocument(
        sessions=after.sessions,
        environment=after.environment,
        study=after.study,
        inconclusive=inconclusive,
        verdicts=tuple(verdicts),
        conclusion=conclude(verdicts),
    )
    printing.show(form, lambda: document.model_dump_json(indent=2), lambda: report(document))
    if failures(verdicts, inconclusive):
        raise typer.Exit(JUDGED_NO)


def _read(path: Path) -> "Subject":
    """A study or a pytest-benchmark file. Raises StoreError for a path that is neither."""
    from trio_profile.errors import StoreError
    from trio_profile.kinds.gate.evidence import of_benchmarks, of_study
    from trio_profile.reading import read_bytes
    from trio_profile.records.files import MEASUREMENTS
    from trio_profile.records.store import Store

    if path.name == MEASUREMENTS:
        path = path.parent
    if path.is_dir():
        return of_study(Store(path).read(), str(path))
    try:
        return of_benchmarks(read_bytes(path), str(path))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}; name a study's directory or a pytest-benchmark JSON"
        ) from error
