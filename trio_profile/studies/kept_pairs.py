"""What an unfinished study of servers has found so far. Nobody is asked."""

from pathlib import Path

from trio_profile.analysis.endpoint_loads import document_of
from trio_profile.analysis.endpoints import EndpointsDocument
from trio_profile.inputs import host
from trio_profile.records.endpoint_study import EndpointStudy
from trio_profile.records.request_store import RequestStore


def document_so_far(study: EndpointStudy, directory: Path) -> EndpointsDocument:
    """Return the document of the pairs that a directory holds.

    Raises MeasurementError if no pair is finished. Raises StoreError if the directory holds another study.
    """
    return document_of(study, RequestStore(directory, study, host.session(host.without_torch())).found)
