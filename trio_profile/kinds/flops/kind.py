"""The kind `flops`."""

from trio_profile.records.files import DOCUMENTS
from trio_profile.study.kind import Kind

KIND = Kind(
    name="flops",
    group="Explain",
    place=1,
    summary="Reconcile the claimed work of one prefill with the counted work, term by term.\n\n"
    "Without --retention the dense model is counted.",
    options=(
        *("model", "layers", "options", "device", "attention", "seed", "methods", "retentions"),
        *("gamma", "text_tokens", "new_tokens", "batch", "claimed", "convention", "causal"),
    ),
    runner="trio_profile.kinds.flops.run:run",
    document="trio_profile.kinds.flops.document:FlopsDocument",
    report="trio_profile.kinds.flops.report:report",
    conclude="trio_profile.kinds.flops.document:conclude",
    file=DOCUMENTS["flops"],
    rows="terms",
    defaults={"methods": (), "retentions": (), "device": "cpu"},
    empty_words={
        "methods": "trio if --retention is given; otherwise the dense model",
        "retentions": "the dense model alone",
    },
    units=True,
    prepare="trio_profile.kinds.flops.document:prepare",
    several=(),
)
