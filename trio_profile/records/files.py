"""The names of the files in which a study is kept. Nothing is imported, so that the command line stays fast."""

MEASUREMENTS = "measurements.jsonl"
"""The cells of a study that is measured cell by cell."""
STUDY = "study.toml"
"""The study: all its settings."""
REPORT = "report.html"
"""The page of a study."""
TRACE = "trace.json"
"""The spans of a prefill, of the kind `layers`."""
ANSWERS = "answers.jsonl"
"""The answers to each question, of the kind `eval`."""
REQUESTS = "requests.jsonl"
"""Each request and its times, of the kind `endpoints`."""
SUBMISSIONS = "submissions"
"""A directory for the files that tasks write for a benchmark's server, of the kind `eval`."""
DOCUMENTS = {
    name: f"{name}.json" for name in ("evaluation", "flops", "layers", "audit", "endpoints", "prediction")
}
"""The documents of the studies that are measured in one go."""
WRITTEN = frozenset({MEASUREMENTS, STUDY, REPORT, TRACE, ANSWERS, REQUESTS, SUBMISSIONS, *DOCUMENTS.values()})
"""All files that a study writes. The names of further ones begin with a full stop."""
