"""The kind `audit`."""

from trio_profile.records.files import DOCUMENTS
from trio_profile.study.kind import Kind

KIND = Kind(
    name="audit",
    group="Judge",
    place=1,
    summary="Recompute each figure of a paper from its other figures, and say which of them follow.",
    options=("claims", "measured", "gpu"),
    runner="trio_profile.kinds.audit.run:run",
    document="trio_profile.kinds.audit.document:AuditDocument",
    report="trio_profile.kinds.audit.report:report",
    conclude="trio_profile.kinds.audit.document:conclude",
    file=DOCUMENTS["audit"],
    rows="claims",
    prepare="trio_profile.kinds.audit.run:prepare",
    with_claims="trio_profile.kinds.audit.as_printed:with_printed",
    preview="",
    several=(),
)
