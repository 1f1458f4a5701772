"""The names of the files in which a study is kept. Nothing is imported, so that the command line stays fast."""

MEASUREMENTS = "measurements.jsonl"
"""The cells of a study that is measured cell by cell."""
STUDY = "study.toml"
"""What was asked."""
