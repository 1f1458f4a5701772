"""The kind `audit`: recompute the figures that a paper prints, and compare them with a measured sweep."""

from pathlib import Path

from trio_profile.errors import StudyError
from trio_profile.inputs import host
from trio_profile.inputs.claims.claims import builtin
from trio_profile.inputs.claims.reader import read
from trio_profile.kinds.audit.document import AuditDocument, audit
from trio_profile.kinds.audit.measured import with_measured
from trio_profile.progress import Watch, ignore
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.study.kinds import find


def prepare(study: Study) -> Study:
    """Return the study unchanged. Raises StudyError if it names no claims."""
    if study.claims is None:
        raise StudyError(f"name a claims file, or one of {', '.join(builtin())}; --new FILE writes an example")
    return study


def run(study: Study, directory: Path | None = None, watch: Watch = ignore) -> AuditDocument:  # noqa: ARG001
    """Audit a claims file.

    Raises ClaimsError if the file is not valid, or if the peak of the GPU is not known. Raises StoreError if the
    directory `measured` holds no sweep, and StudyError if the sweep has none of the settings.
    """
    assert study.claims is not None
    claims = read(study.claims)
    session = host.session(host.without_torch())
    document = audit(claims, study.gpu).model_copy(update={"sessions": (session,)})
    if study.measured is None:
        return document
    sweep = find("sweep").load("document")(Store(Path(study.measured)).read())
    document = with_measured(document, claims, sweep)
    if not any(finding.measured for finding in document.claims):
        raise StudyError(
            f"{study.measured} is a study of {sweep.study.model} and holds no setting for which {document.name} claims "
            "a ratio: give a sweep of the same model, method and retention, or leave --measured out"
        )
    return document
