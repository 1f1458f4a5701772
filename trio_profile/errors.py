"""The errors of trio_profile. Each message is one line: the thing, its value and the way out.

ProfileError              an error that the user can fix; the command line prints it and exits with code 2
├── StudyError            the study cannot run: a wrong field, picture, device or model name
├── StoreError            the files of a study are missing, damaged, or of another study
├── ClaimsError           a claims file is not valid
└── MeasurementError      the measurements do not suffice: too few samples, a missing quantity
"""

import traceback

from trio_profile.text import message_of


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


_FULL = ("DefaultCPUAllocator", "error: out of memory", "cudaErrorMemoryAllocation", "_ALLOC_FAILED")
"""Parts of the messages of torch where memory ran out and the error has no class of its own. The last one is that of
NVIDIA's libraries, such as CUBLAS_STATUS_ALLOC_FAILED."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory of the machine or of a GPU ran out, in the error or in its cause. torch need not be imported."""
    for raised in (error, error.__cause__):
        names = {cls.__name__ for cls in type(raised).__mro__}
        if names & {"MemoryError", "OutOfMemoryError"}:
            return True
        if isinstance(raised, RuntimeError) and any(words in message_of(raised) for words in _FULL):
            return True
    return False


def release(error: BaseException) -> None:
    """Let go of what the frames of an error and of its causes hold, such as the tensors of a run that failed."""
    raised: BaseException | None = error
    while raised is not None:
        traceback.clear_frames(raised.__traceback__)
        raised = raised.__cause__ or raised.__context__
