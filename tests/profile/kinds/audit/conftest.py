"""Fixtures that tests of several checks share."""

import pytest

from tests.profile.kinds.audit.auditing import audit_of
from trio_profile.kinds.audit.document import AuditDocument


@pytest.fixture(scope="session")
def trio_audit() -> AuditDocument:
    return audit_of("trio-2026")
