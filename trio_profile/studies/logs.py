"""Log a kept study elsewhere, as `--log` asks. A logger is the module `logger` of an optional part (parts.py).

It has two functions. `require()` raises LogError unless a study can be logged now. `log(finished, directory)` logs the
study of a directory, and returns one line about it.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trio_profile import parts
from trio_profile.errors import LogError

if TYPE_CHECKING:
    from trio_profile.studies.running import Finished

LOGGERS = {name: f"{parts.EXTRAS}.{name}.logger" for name in parts.names("logger")}
"""The module of each logger, by its name."""


def find(name: str) -> ModuleType:
    """Return the logger with this name. Raises LogError if there is none."""
    if name not in LOGGERS:
        raise LogError(f"--log {name}: there is no such logger; choose {', '.join(LOGGERS) or 'none'}")
    return import_module(LOGGERS[name])


def log(name: str, finished: "Finished", directory: Path) -> str:
    """Log a study that a directory holds, and return one line about it. A study that was logged before stays as it is.

    name: of a logger.
    Raises LogError if it cannot be logged; its line says how to do it later.
    """
    try:
        return find(name).log(finished, directory)
    except LogError as error:
        raise LogError(
            f"{error}; the study is kept, and `trio-profile report {directory} --log {name}` logs it"
        ) from error
