"""The extras of this package, the error if they are not installed, and a torchvision that is broken."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from trio_profile.errors import StudyError
from trio_profile.installation import core_fault, missing_extra
from trio_profile.text import first_line, listed

RUN = ("torch", "transformers", "fvcore")
"""The modules that the extra `run` brings and that every model needs."""
TORCHVISION = "torchvision"
"""A module that transformers uses where it is installed."""


class _State:
    """The result of `set_broken_torchvision_aside`.

    fault: the error of torchvision's import, as one line; empty if there was none.
    """

    fault = ""


def require_run(who: str, modules: Sequence[str] = RUN) -> None:
    """Raise StudyError if `trio_core` is not that of this distribution, or if the extra `run` is not installed.

    Nothing is imported. Call `set_broken_torchvision_aside` before transformers is.

    who: the verb that needs it, for the message.
    modules: those that it needs.
    """
    if fault := core_fault():
        raise StudyError(fault)
    require(who, "run", modules)


def require(who: str, extra: str, modules: Sequence[str]) -> None:
    """Raise StudyError if one of the modules of an extra is not installed. who: the verb that needs it."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise StudyError(missing_extra(who, extra, f"not installed: {listed(missing)}"))


def set_broken_torchvision_aside(*, say: bool = True) -> None:
    """Let transformers work beside a torchvision that raises when it is imported.

    A torchvision of another build than torch raises, and with it most of transformers. From then on, in this process,
    torchvision counts as not installed. Call this before transformers is imported. A second call changes nothing.

    say: whether to write a warning to standard error.
    """
    if TORCHVISION in sys.modules or "transformers.modeling_utils" in sys.modules or find_spec(TORCHVISION) is None:
        return
    try:
        import_module(TORCHVISION)
    except Exception as error:
        _State.fault = first_line(error)
        _hide_torchvision()
        if say:
            print(
                f"trio-profile: warning: torchvision cannot be imported and is not used ({_State.fault}): videos are "
                "refused; install the build of torchvision that belongs to this torch, or remove it",
                file=sys.stderr,
            )


def torchvision_fault() -> str:
    """Return why torchvision was set aside, as one line. Empty if it was not."""
    return _State.fault


def _hide_torchvision() -> None:
    """Make torchvision look as if it were not installed, to Python and to transformers."""
    for name in [name for name in sys.modules if name.partition(".")[0] == TORCHVISION]:
        del sys.modules[name]
    sys.modules[TORCHVISION] = None  # pyright: ignore[reportArgumentType] - Python's own mark of a module that is missing
    for name, known in vars(import_module("transformers.utils.import_utils")).items():
        if TORCHVISION in name and hasattr(known, "cache_clear"):
            known.cache_clear()
