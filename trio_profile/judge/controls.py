"""The remarks on methods that conclusions need: that one is a control, or that its licence restricts its use."""

CONTROL = "control"
"""The remark of a method that others are compared with. [trio_core.methods.method.Reference.remark]"""


def licence(remark: str) -> str:
    """Return the warning about a method whose code restricts its use, in brackets; else empty."""
    return f" ({remark})" if "non-commercial" in remark else ""
