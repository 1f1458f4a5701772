"""Audits of the claims that ship, each made once in a process."""

from functools import cache

from trio_profile.inputs.claims.reader import read
from trio_profile.kinds.audit.document import AuditDocument, audit


@cache
def audit_of(name: str) -> AuditDocument:
    """The audit of built-in claims."""
    return audit(read(name))
