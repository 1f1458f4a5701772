"""The kind `endpoints`."""

from trio_profile.records.files import DOCUMENTS, REQUESTS
from trio_profile.study.kind import Kind

KIND = Kind(
    name="endpoints",
    group="Measure",
    place=4,
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
    conclude="trio_profile.kinds.servers.advice:conclude",
    file=DOCUMENTS["endpoints"],
    unfinished=REQUESTS,
    so_far="trio_profile.kinds.servers.run:document_so_far",
    rows="loads",
    requests="trio_profile.kinds.servers.requests:request_rows",
    extra="endpoints",
    defaults={"new_tokens": 16},
    prepare="trio_profile.kinds.servers.plan:prepare",
    preview="trio_profile.kinds.servers.plan:preview",
    preview_report="trio_profile.kinds.servers.report:preview_report",
    several=(),
    out="runs/endpoints",
)
