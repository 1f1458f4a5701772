"""A prediction from a small table, and a kept study of the kind."""

from unittest.mock import patch

from tests.profile.faking import FakeTables
from trio_profile.kinds.predict import run as predict
from trio_profile.kinds.predict.document import PredictionDocument, PredictStudy
from trio_profile.records.documents import write_document


def predicted(**fields) -> PredictionDocument:
    """The document of a prediction from FakeTables."""
    with patch.object(predict, "tables", lambda *_: [FakeTables()]):
        return predict.run(PredictStudy(gpu="fake", **fields))


KEPT = {"predict": lambda directory: write_document(directory / "prediction.json", predicted())}
