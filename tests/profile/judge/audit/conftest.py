"""Fixtures that tests of several checks share."""

import pytest

from trio_profile.judge.audit.document import AuditDocument, audit
from trio_profile.judge.audit.reader import read


@pytest.fixture(scope="session")
def trio_audit() -> AuditDocument:
    return audit(read("trio-2026"))
