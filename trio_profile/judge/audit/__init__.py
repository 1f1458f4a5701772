"""The audit of a paper's printed claims: the claims file, its reader, the checks, and the document."""
