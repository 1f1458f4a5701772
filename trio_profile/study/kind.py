"""The kinds of study: the class, and the options that several kinds have.

A kind names its functions as "module:name". They are imported when they are used. So the command line prints its help
at once, and a report needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from trio_profile.errors import StudyError
from trio_profile.installation import missing_extra
from trio_profile.records.files import MEASUREMENTS

Group = Literal["Measure", "Predict", "Explain", "Judge", "Paper", "Look", "Run"]
"""The headings in the help of the command line."""

Part = Literal[
    "study", "runner", "document", "report", "preview", "preview_report", "prepare", "so_far",
    "conclude", "instead", "with_claims", "rows", "pairs", "requests", "paper_table",
]  # fmt: skip
"""The fields of a Kind that name a function or a class."""

MODEL = ("model", "layers", "options", "device", "dtype", "attention", "seed", "pixels")
"""The fields of every kind that runs a model on pictures."""
VIDEO = ("video", "frames", "fps")
INPUT = (
    *("image", *VIDEO, "prompt", "picture", "questions", "match", "fidelity_inputs"),
    *("text_tokens", "new_tokens", "batch"),
)
SAMPLING = ("seconds", "precision")
CELLS = ("processes", *SAMPLING)
OF_A_MODEL = "trio_profile.records.study:Study"
"""The class of a study of one model."""


@dataclass(frozen=True)
class Kind:
    """One kind of study.

    name: name of the kind, and of its verb on the command line.
    group: the heading under which the help lists it.
    place: its place under this heading, from 1.
    summary: its help. The first line says what it does.
    options: the fields of its study that have an option. Every verb also has `--study`, `--out`, `--resume`,
        `--dry-run` and `--json`.
    study: the class that says what to measure.
    runner: the function that measures: `run(study, directory, watch)`. It returns the document. That of a kind that is
        measured cell by cell writes the cells to `directory` instead, and takes `keep_refusals`.
    document: the class of the document. For a kind that is measured cell by cell: the function that makes the document
        from the contents of the store.
    report: the function that makes a Report from the document.
    conclude: the function that returns the Conclusion of a document; empty if the document is made with one.
    fields: fields of Study that it takes and that have no option of their own.
    file: the file that the study writes to its directory.
    unfinished: the file of an unfinished study, from which the same command goes on; empty if `file` is this file, and
        if the study begins anew.
    so_far: the function that makes the document of an unfinished study: `so_far(study, directory)`. It raises
        MeasurementError if the directory does not hold enough. Empty if there is none.
    defaults: the fields of Study with another default than Study's own.
    empty_words: what the help says of an empty one of these defaults.
    units: whether its tables can be in FLOPs too.
    several: the fields of Study that may hold more than one value: `methods`, `retentions`, `questions`.
    preview: the function of its dry run: `preview(study, watch)` returns a Preview. Empty if it has none.
    preview_report: the function that makes a Report from the Preview.
    prepare: the function that completes a checked Study, if its defaults depend on the model; otherwise empty.
    keep_refusals: whether a refused cell is recorded and the study continues. Otherwise the whole study is refused.
    out: the default directory; empty if the result is only printed by default.
    rows: the list of the document that `export` writes as rows, or the function that makes the rows from the document;
        empty if it has none.
    pairs: the function that makes the rows of the raw pairs from the document; empty if it has none.
    requests: the function that makes the rows of the requests from the directory; empty if it has none.
    paper_table: the function that makes the page with the table for a paper from the document, or returns None; empty
        if it has none.
    with_claims: the function that puts the figures of a claims file beside the measured ones of any report.
    instead_of: the name of a kind whose study this one takes over, if the fields ask for it; otherwise empty.
    instead: the function that makes the draft then, or returns None: `instead(kind, fields, trust=…)`.
    extra: the extra of this package that the runner needs; otherwise empty.
    """

    name: str
    group: Group
    summary: str
    options: tuple[str, ...]
    runner: str
    document: str
    report: str
    fields: tuple[str, ...] = ()
    file: str = MEASUREMENTS
    unfinished: str = ""
    so_far: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    empty_words: Mapping[str, str] = field(default_factory=dict)
    units: bool = False
    several: tuple[str, ...] = ("methods", "retentions")
    study: str = OF_A_MODEL
    preview: str = "trio_profile.study.preview:preview"
    preview_report: str = "trio_profile.report.preview:report"
    prepare: str = ""
    keep_refusals: bool = False
    out: str = ""
    rows: str = ""
    pairs: str = ""
    requests: str = ""
    paper_table: str = ""
    with_claims: str = ""
    instead: str = ""
    instead_of: str = ""
    conclude: str = ""
    extra: str = ""
    place: int = 99

    @property
    def goes_on(self) -> bool:
        """Whether an interrupted study goes on where it was."""
        return bool(self.unfinished) or self.file == MEASUREMENTS

    @property
    def runs_a_model(self) -> bool:
        """Whether it runs a model. An audit does not."""
        return "model" in self.options and self.study == OF_A_MODEL

    def load(self, part: Part) -> Any:
        """Import and return the function or class that a field names.

        Raises StudyError if the extra that it needs is not installed.
        """
        module, _, name = getattr(self, part).partition(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if not self.extra:
                raise
            raise StudyError(missing_extra(self.name, self.extra, error)) from error
