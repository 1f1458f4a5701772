"""The tree of errors. Each message is one line that names the thing, its value and the way out.

TrioError
├── OptionError            an argument outside its range
│   ├── RetentionError     a retention that no schedule can reach
│   └── UnknownName        a name that no registry knows
├── MethodError            a method of the user's own raised an error
├── UnsupportedModel       a model, or a part of one, that we do not know how to prune
└── UnsupportedInput       inputs for which pruning would give a wrong result without an error
"""


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not empty. The name of its type if there is none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class TrioError(Exception):
    """Something that the user can mend. The command line prints it as one line and exits with 2."""


class OptionError(TrioError, ValueError):
    """An argument is outside its range."""


class RetentionError(OptionError):
    """No schedule reaches the requested retention."""


class UnknownName(OptionError):
    """A name is in no registry.

    kind: what it names, such as "method".
    name: the unknown name.
    known: the names in the registry.
    way_out: what else the user can do; may be empty.
    """

    def __init__(self, kind: str, name: str, known: list[str], way_out: str = ""):
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(known)}{'; ' + way_out if way_out else ''}")


class MethodError(TrioError):
    """A method of the user's own raised an error, which is the cause of this one."""


class UnsupportedModel(TrioError):
    """We do not know how to prune this model, or its attention implementation."""


class UnsupportedInput(TrioError, ValueError):
    """For these inputs pruning would give a wrong result without an error."""
