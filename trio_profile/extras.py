"""What the extras of this package bring, and the error if they are not installed."""

from importlib.util import find_spec

from trio_profile.errors import StudyError
from trio_profile.text import listed

RUN = ("torch", "transformers", "trio_core", "fvcore")
"""The modules that the extra `run` brings and that every model needs."""


def require_run(who: str) -> None:
    """Raise StudyError if the extra `run` is not installed. Nothing is imported.

    who: the verb that needs it, for the message.
    """
    if missing := [name for name in RUN if find_spec(name) is None]:
        verb = "is" if len(missing) == 1 else "are"
        raise StudyError(
            f"{who} needs the extra 'run' ({listed(missing)} {verb} not installed): pip install 'trio-profile[run]'"
        )
