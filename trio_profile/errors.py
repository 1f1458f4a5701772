"""The errors of trio_profile. Each message is one line: the thing, its value and the way out.

ProfileError              an error that the user can fix; the command line prints it and exits with code 2
├── StudyError            the study cannot run: a wrong field, picture, device or model name
├── StoreError            the files of a study are missing, damaged, or of another study
├── ClaimsError           a claims file is not valid
└── MeasurementError      the measurements do not suffice: too few samples, a missing quantity
"""


class ProfileError(Exception):
    """An error that the user can fix. The command line prints it as one line and exits with code 2."""


class StudyError(ProfileError, ValueError):
    """The study cannot run as it is written."""


class StoreError(ProfileError):
    """The files of a study cannot be read or written, or they belong to another study."""


class ClaimsError(ProfileError, ValueError):
    """A file with a paper's claims is not valid."""


class MeasurementError(ProfileError, ValueError):
    """The measurements do not suffice for what is computed from them."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, of the machine or of a GPU. torch need not be imported."""
    names = {cls.__name__ for cls in type(error).__mro__}
    # The CPU allocator of torch has no error class.
    cpu_messages = ("not enough memory", "can't allocate memory")
    return not names.isdisjoint({"MemoryError", "OutOfMemoryError"}) or any(
        words in str(error) for words in cpu_messages
    )
