"""The kind `layers`."""

from trio_profile.records.files import DOCUMENTS
from trio_profile.study.kind import MODEL, SAMPLING, Kind

KIND = Kind(
    name="layers",
    group="Explain",
    place=2,
    summary="Time every decoder layer and every stage of one prefill, dense and pruned.\n\n"
    "Several retentions are timed in turn with the dense model, and make the paper's efficiency table.",
    options=(
        *(*MODEL, "methods", "retentions", "gamma", "image", "video", "frames", "fps", "prompt", "text_tokens"),
        *("new_tokens", "batch", "gpu", *SAMPLING),
    ),
    runner="trio_profile.kinds.layers.run:run",
    document="trio_profile.kinds.layers.document:LayersDocument",
    report="trio_profile.kinds.layers.report:report",
    conclude="trio_profile.kinds.layers.document:conclude",
    file=DOCUMENTS["layers"],
    rows="trio_profile.kinds.layers.document:layer_rows",
    paper_table="trio_profile.kinds.layers.report:totals_page",
    defaults={"retentions": (0.111,), "seconds": 20.0},
    several=("retentions",),
)
