"""The kinds of study. To add a kind, write its file and add one entry to KINDS."""

from trio_profile import parts
from trio_profile.errors import StudyError
from trio_profile.records.files import ANSWERS, DOCUMENTS, REQUESTS
from trio_profile.studies.kind import CELLS, INPUT, MODEL, SAMPLING, Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="sweep",
            group="Measure",
            summary="Sweep retentions: speed-up, work, cache and break-even. The main job.\n\n"
            "All retentions and the dense model are timed in turn, in random rounds. The same command goes on where it "
            "was.",
            options=(*MODEL, "methods", "retentions", "gamma", *INPUT, *CELLS),
            document="trio_profile.analysis.sweep:summarise",
            report="trio_profile.findings.sweep:report",
            out="runs/sweep",
        ),
        Kind(
            name="compare",
            group="Measure",
            summary="Compare methods at the same retentions: time, work, cache, and agreement with the dense model.\n\n"
            "The controls `random` and `downsample` are always included. A method that cannot run is listed with its "
            "reason.",
            options=(*MODEL, "methods", "retentions", *INPUT, *CELLS),
            document="trio_profile.analysis.compare:compare",
            report="trio_profile.findings.compare:report",
            defaults={"methods": (), "retentions": (0.333,)},
            empty_words={"methods": "all methods"},
            prepare="trio_profile.studies.comparisons:prepare_compare",
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
                *(*MODEL, "methods", "retentions", "gamma"),
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
            empty_words={
                "methods": "the suite's; without a suite trio",
                "retentions": "the suite's; without a suite 0.333",
            },
            prepare="trio_profile.studies.suites:prepare",
            preview="trio_profile.studies.preview:preview_tasks",
            keep_refusals=True,
        ),
        Kind(
            name="endpoints",
            group="Measure",
            summary="Compare a dense server with a pruned one under load: up to which concurrency pruning pays.\n\n"
            "It asks servers that speak OpenAI's chat completions, in turn, with pictures that no request repeats. "
            "Finished segments are not measured again. This needs the extra `endpoints`.",
            options=(
                *("dense", "pruned", "model", "body", "pruned_body", "key_variable", "seed"),
                *("pictures", "frames", "prompt", "questions", "match", "asked", "new_tokens"),
                *("concurrency", "rates", "rounds", "session_rounds", "requests"),
                *("segment_seconds", "timeout_seconds", "ttft_limit_ms"),
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
                *("model", "layers", "options", "device", "attention", "seed", "methods", "retentions"),
                *("gamma", "text_tokens", "new_tokens", "batch", "claimed", "convention", "causal"),
            ),
            runner="trio_profile.studies.flops:run",
            document="trio_profile.analysis.flops:FlopsDocument",
            report="trio_profile.findings.flops:report",
            file=DOCUMENTS["flops"],
            rows="terms",
            defaults={"methods": (), "retentions": (), "device": "cpu"},
            empty_words={
                "methods": "trio if --retention is given; otherwise the dense model",
                "retentions": "the dense model alone",
            },
            units=True,
            prepare="trio_profile.analysis.flops:prepare",
            several=(),
        ),
        Kind(
            name="layers",
            group="Explain",
            summary="Time every decoder layer and every stage of one prefill, dense and pruned.\n\n"
            "Several retentions are timed in turn with the dense model, and make the paper's efficiency table.",
            options=(
                *(*MODEL, "methods", "retentions", "gamma", "image", "video", "frames", "fps", "prompt", "text_tokens"),
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
                *(*MODEL, "ablations", "retentions", *INPUT, *CELLS),
                *("suite", "tasks", "task_path", "limit"),
            ),
            document="trio_profile.analysis.ablate:ablate",
            report="trio_profile.findings.ablate:report",
            defaults={"retentions": (0.111,)},
            prepare="trio_profile.studies.comparisons:prepare_ablate",
            keep_refusals=True,
            several=("retentions",),
            out="runs/ablate",
        ),
        *(module.KIND for _, module in parts.modules("kind")),
    )
}
"""All kinds by name, in the order of the help."""


def find(name: str) -> Kind:
    """Return the kind with this name. Raises StudyError if no kind has it."""
    if name not in KINDS:
        raise StudyError(f"no kind of study is called {name!r}; choose {', '.join(KINDS)}")
    return KINDS[name]
