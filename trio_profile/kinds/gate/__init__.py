"""The verdict on a change: of two studies, of two pytest-benchmark files, or of a test."""
