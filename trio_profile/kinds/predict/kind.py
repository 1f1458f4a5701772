"""The kind `predict`."""

from trio_profile.records.files import DOCUMENTS
from trio_profile.study.kind import Kind

KIND = Kind(
    name="predict",
    group="Predict",
    place=1,
    summary="Predict the prefill on a GPU that you do not have, dense and pruned.\n\n"
    "The times of operators are NVIDIA's, of vLLM, SGLang and TensorRT-LLM; nothing is measured here. It needs no "
    "torch. This needs the extra `predict`.",
    options=(
        "model",
        "method",
        "retentions",
        "gpu",
        "engine",
        "tp",
        "batch",
        "visual_tokens",
        "text_tokens",
        "against",
    ),
    study="trio_profile.kinds.predict.document:PredictStudy",
    runner="trio_profile.kinds.predict.run:run",
    document="trio_profile.kinds.predict.document:PredictionDocument",
    report="trio_profile.kinds.predict.report:report",
    conclude="trio_profile.kinds.predict.document:conclude",
    file=DOCUMENTS["prediction"],
    rows="cells",
    preview="",
    extra="predict",
    several=(),
)
