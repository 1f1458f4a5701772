"""Audits of the claims that ship, each made once in a process."""

from functools import cache

from trio_profile.judge.audit.document import AuditDocument, audit
from trio_profile.judge.audit.reader import read


@cache
def audit_of(name: str) -> AuditDocument:
    """The audit of built-in claims."""
    return audit(read(name))
