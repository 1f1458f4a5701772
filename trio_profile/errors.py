"""The instrument's errors, of the same kind as `trio_core.errors`: one line, the thing, the value, the way out.

ProfileError              anything the user can mend; the command line prints it and exits with 2
├── StudyError            what is asked cannot be: a bad study, picture, device or model name
├── StoreError            measurements.jsonl is foreign, damaged, or of another study
├── ClaimsError           a file of claims is none: line and field, what is wrong there
└── MeasurementError      what was seen cannot be used: too few samples, a missing quantity
"""


class ProfileError(Exception):
    """Anything the user can mend. The command line prints it as one line and exits with 2."""


class StudyError(ProfileError, ValueError):
    """What is asked cannot be measured as asked."""


class StoreError(ProfileError):
    """A directory of measurements cannot be read, or holds another study."""


class ClaimsError(ProfileError, ValueError):
    """A file of a paper's claims cannot be read as one."""


class MeasurementError(ProfileError, ValueError):
    """What was measured cannot bear the question."""
