"""The kinds of study. To add a kind, write its file and add one entry to KINDS.

A kind names its functions as "module:name". They are imported when they are used. So the command line prints its help
at once, and a report needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from trio_profile.errors import StudyError
from trio_profile.records.files import ANSWERS, DOCUMENTS, MEASUREMENTS, REQUESTS

FIELDS = {
    "method": "methods",
    "retention": "retentions",
    "option": "options",
    "budget_rule": "options",
    "asked": "fidelity_inputs",
    "until": "precision",
    "only": "ablations",
    "dense_url": "dense",
    "pruned_url": "pruned",
    "served_model": "model",
    "rate": "rates",
    "picture_directory": "pictures",
}
"""The options of the command line whose field of Study has another name."""

Group = Literal["Measure", "Explain", "Judge", "Paper", "Look", "Run"]
"""The headings in the help of the command line."""

Part = Literal["study", "runner", "document", "report", "preview", "preview_report", "prepare", "so_far"]
"""The fields of a Kind that name a function or a class."""

MODEL = ("model", "layers", "option", "device", "dtype", "attention", "seed", "pixels")
"""The options of every kind that runs a model on pictures."""
INPUT = ("image", "prompt", "picture", "questions", "asked", "text_tokens", "new_tokens", "batch")
SAMPLING = ("seconds", "until", "preroll_ms", "cold_l2")
CELLS = ("processes", *SAMPLING)


@dataclass(frozen=True)
class Kind:
    """One kind of study.

    name: name of the kind, and of its verb on the command line.
    group: the heading under which the help lists it.
    summary: its help. The first line says what it does.
    options: its options, by their names on the command line. Every kind also has `study`, `out`, `resume`, `log`,
        `dry_run` and `json`.
    study: the class that says what to measure.
    runner: the function that measures: `run(study, directory, watch)`. It returns the document. The runner of a kind
        that is measured cell by cell writes its cells to `directory` instead.
    document: the class of the document. For a kind that is measured cell by cell: the function that makes the document
        from the contents of the store.
    report: the function that makes a Report from the document.
    fields: fields of Study that it takes and that have no option of their own.
    file: the file that the study writes to its directory.
    unfinished: the file of an unfinished study, from which the same command goes on; empty if `file` is this file, and
        if the study begins anew.
    so_far: the function that makes the document of an unfinished study: `so_far(study, directory)`. It raises
        MeasurementError if the directory does not hold enough. Empty if there is none.
    defaults: the fields of Study with another default than Study's own.
    several: the fields of Study that may hold more than one value: `methods`, `retentions`, `questions`.
    preview: the function of its dry run: `preview(study, watch)` returns a Preview. Empty if it has none.
    preview_report: the function that makes a Report from the Preview.
    prepare: the function that completes a checked Study, if its defaults depend on the model; otherwise empty.
    keep_refusals: whether a refused cell is recorded and the study continues. Otherwise the whole study is refused.
    out: the default directory; empty if the result is only printed by default.
    rows: the list of the document that `export` writes as rows; empty for cells, and if there is none.
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
    several: tuple[str, ...] = ("methods", "retentions")
    study: str = "trio_profile.records.study:Study"
    preview: str = "trio_profile.studies.preview:preview"
    preview_report: str = "trio_profile.findings.preview:report"
    prepare: str = ""
    keep_refusals: bool = False
    out: str = ""
    rows: str = ""
    extra: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether an interrupted study goes on where it was."""
        return bool(self.unfinished) or self.file == MEASUREMENTS

    @property
    def runs_a_model(self) -> bool:
        """Whether it runs a model. An audit does not."""
        return "model" in self.options

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
            raise StudyError(
                f"{self.name} needs the extra {self.extra!r} ({error}): pip install 'trio-profile[{self.extra}]'"
            ) from error


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="sweep",
            group="Measure",
            summary="Sweep retentions: speed-up, work, cache and break-even. The main job.\n\n"
            "All retentions and the dense model are timed in turn, in random rounds. The same command goes on where it "
            "was.",
            options=(*MODEL, "method", "retention", "budget_rule", "gamma", *INPUT, *CELLS),
            runner="trio_profile.studies.sweep:run",
            document="trio_profile.analysis.sweep:from_store",
            report="trio_profile.findings.sweep:report",
            out="runs/sweep",
        ),
        Kind(
            name="compare",
            group="Measure",
            summary="Compare methods at the same retentions: time, work, cache, and agreement with the dense model.\n\n"
            "The controls `random` and `downsample` are always included. A method that cannot run is listed with its "
            "reason.",
            options=(*MODEL, "method", "retention", "budget_rule", *INPUT, *CELLS),
            runner="trio_profile.studies.compare:run",
            document="trio_profile.analysis.compare:from_store",
            report="trio_profile.findings.compare:report",
            defaults={"methods": (), "retentions": (0.333,)},
            prepare="trio_profile.studies.compare:prepare",
            keep_refusals=True,
            out="runs/compare",
        ),
        Kind(
            name="eval",
            group="Measure",
            summary="Score several methods and the dense model on tasks of lmms-eval, and time their answers.\n\n"
            "All answer a question before the next one is asked. Answered questions are not asked again. "
            "A method that cannot run is listed with its reason. This needs the extra `eval`.",
            options=(
                *(*MODEL, "method", "retention", "budget_rule", "gamma"),
                *("suite", "tasks", "task_path", "limit", "dense"),
            ),
            fields=("ablations",),
            runner="trio_profile.studies.eval:run",
            document="trio_profile.analysis.evaluation:Evaluation",
            report="trio_profile.findings.eval:report",
            file=DOCUMENTS["evaluation"],
            unfinished=ANSWERS,
            rows="cells",
            extra="eval",
            defaults={"methods": (), "retentions": ()},
            prepare="trio_profile.studies.suites:prepare",
            preview="trio_profile.studies.eval_preview:preview",
            keep_refusals=True,
        ),
        Kind(
            name="endpoints",
            group="Measure",
            summary="Compare a dense server with a pruned one under load: up to which concurrency pruning pays.\n\n"
            "It asks servers that speak OpenAI's chat completions, in turn, with pictures that no request repeats. "
            "Finished segments are not measured again. This needs the extra `endpoints`.",
            options=(
                *("dense_url", "pruned_url", "served_model", "body", "pruned_body", "key_variable", "seed"),
                *("picture_directory", "frames", "prompt", "new_tokens", "concurrency", "rate", "rounds", "requests"),
                *("segment_seconds", "timeout_seconds", "ttft_limit_ms", "check_cache"),
            ),
            study="trio_profile.kinds.servers.study:EndpointStudy",
            runner="trio_profile.kinds.servers.run:run",
            document="trio_profile.kinds.servers.document:EndpointsDocument",
            report="trio_profile.kinds.servers.report:report",
            file=DOCUMENTS["endpoints"],
            unfinished=REQUESTS,
            so_far="trio_profile.kinds.servers.run:document_so_far",
            rows="loads",
            extra="endpoints",
            defaults={"new_tokens": 16},
            prepare="trio_profile.kinds.servers.plan:prepare",
            preview="trio_profile.kinds.servers.plan:preview",
            preview_report="trio_profile.kinds.servers.report:preview_report",
            several=(),
            out="runs/endpoints",
        ),
        Kind(
            name="flops",
            group="Explain",
            summary="Reconcile the claimed work of one prefill with the counted work, term by term.\n\n"
            "Without --retention the dense model is counted.",
            options=(
                *("model", "layers", "option", "device", "attention", "seed", "method", "retention", "budget_rule"),
                *("gamma", "text_tokens", "new_tokens", "batch", "claimed", "convention", "causal", "unit"),
            ),
            runner="trio_profile.studies.flops:run",
            document="trio_profile.analysis.flops:FlopsDocument",
            report="trio_profile.findings.flops:report",
            file=DOCUMENTS["flops"],
            rows="terms",
            defaults={"methods": (), "retentions": (), "device": "cpu"},
            prepare="trio_profile.analysis.flops:prepare",
            several=(),
        ),
        Kind(
            name="layers",
            group="Explain",
            summary="Time every decoder layer and every stage of one prefill, dense and pruned.\n\n"
            "Several retentions are timed in turn with the dense model, and make the paper's efficiency table.",
            options=(
                *(*MODEL, "method", "retention", "budget_rule", "gamma", "image", "prompt", "text_tokens"),
                *("new_tokens", "batch", *SAMPLING),
            ),
            runner="trio_profile.studies.layers:run",
            document="trio_profile.analysis.layers:LayersDocument",
            report="trio_profile.findings.layers:report",
            file=DOCUMENTS["layers"],
            rows="layers",
            defaults={"retentions": (0.111,), "seconds": 20.0},
            several=("retentions",),
        ),
        Kind(
            name="audit",
            group="Judge",
            summary="Recompute each figure of a paper from its other figures, and say which of them follow.",
            options=("claims", "measured", "gpu"),
            runner="trio_profile.studies.audit:run",
            document="trio_profile.judge.audit.document:AuditDocument",
            report="trio_profile.findings.audit:report",
            file=DOCUMENTS["audit"],
            rows="claims",
            prepare="trio_profile.studies.audit:prepare",
            preview="",
            several=(),
        ),
        Kind(
            name="ablate",
            group="Paper",
            summary="Change one option of TRIO at a time, and compare each variant with the default.\n\n"
            "A variant that cannot run is listed with its reason. Finished cells are not measured again. With --tasks "
            "or --suite it is an evaluation: lmms-eval scores the answers of each variant.",
            options=(
                *(*MODEL, "only", "retention", "budget_rule", *INPUT, *CELLS),
                *("suite", "tasks", "task_path", "limit"),
            ),
            runner="trio_profile.studies.ablate:run",
            document="trio_profile.analysis.ablate:from_store",
            report="trio_profile.findings.ablate:report",
            defaults={"retentions": (0.111,)},
            prepare="trio_profile.studies.ablate:prepare",
            keep_refusals=True,
            several=("retentions",),
            out="runs/ablate",
        ),
        Kind(
            name="theory",
            group="Paper",
            summary="Compare the paper's bound with the divergence that removing tokens causes, stage by stage.\n\n"
            "It also compares each layer's saliency with the last layer's, and says which share of the visual tokens "
            "lies above the layer's mean, benchmark by benchmark.",
            options=(*MODEL, "retention", "questions", "asked"),
            runner="trio_profile.studies.theory:run",
            document="trio_profile.analysis.theory:TheoryDocument",
            report="trio_profile.findings.theory:report",
            preview="trio_profile.studies.theory:preview",
            file=DOCUMENTS["theory"],
            rows="layers",
            defaults={"retentions": (0.05, 0.11, 0.33, 0.66), "fidelity_inputs": 30},
            several=("retentions", "questions"),
        ),
    )
}
"""All kinds by name, in the order of the help."""


def find(name: str) -> Kind:
    """Return the kind with this name. Raises StudyError if no kind has it."""
    if name not in KINDS:
        raise StudyError(f"no kind of study is called {name!r}; choose {', '.join(KINDS)}")
    return KINDS[name]
