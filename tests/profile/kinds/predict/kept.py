"""A kept study of `predict`, from a small table."""

from tests.profile.faking import predicted
from trio_profile.records.documents import write_document

KEPT = {"predict": lambda directory: write_document(directory / "prediction.json", predicted())}
