"""The tree of errors. Each message names the thing, its value and the way out, in one line.

TrioError
├── OptionError            an argument outside its range
│   ├── RetentionError     a retention that no schedule can reach
│   └── UnknownName        a name that no registry knows
├── UnsupportedModel       a model, or a part of it, that we do not know how to prune
└── UnsupportedInput       inputs on which pruning would be silently wrong
"""


class TrioError(Exception):
    """Anything the user can mend. The command line prints it as one line and exits with 2."""


class OptionError(TrioError, ValueError):
    """An argument is outside its range."""


class RetentionError(OptionError):
    """No schedule reaches the retention asked for."""


class UnknownName(OptionError):
    """A method, model, schedule or other name is in no registry."""

    def __init__(self, kind: str, name: str, known: list[str], way_out: str = ""):
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(known)}{'; ' + way_out if way_out else ''}")


class UnsupportedModel(TrioError):
    """The model, or its attention, is of a kind that pruning does not know."""


class UnsupportedInput(TrioError, ValueError):
    """The inputs are of a kind on which pruning would be silently wrong."""
