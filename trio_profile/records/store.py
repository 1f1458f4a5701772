"""The files of a study that is measured cell by cell: the append-only store `measurements.jsonl`, and `study.toml`.

A killed process loses at most the cell that it was counting, or the rounds of some seconds.
"""

from collections.abc import Mapping
from pathlib import Path

import tomli_w

from trio_profile.errors import StoreError
from trio_profile.records.contents import Contents
from trio_profile.records.files import DOCUMENTS, MEASUREMENTS, STUDY
from trio_profile.records.log import Log, LogReader, is_begun
from trio_profile.records.record import Record
from trio_profile.records.schema import Environment, FileDigest, Header, Session, Study
from trio_profile.records.writing import make_directory, write_whole


class Store(Log):
    """One directory that holds one study.

    directory: the directory.
    path: the file of the measurements.
    session: id of the session that writes; empty before the store is opened.
    """

    def __init__(self, directory: Path):
        self.directory, self.path = directory, directory / MEASUREMENTS
        super().__init__(self.path, "finished cells")

    def exists(self) -> bool:
        """Return whether the directory holds a store. Raises StoreError if something else has the name of the file."""
        return is_begun(self.path)

    def read(self) -> Contents:
        """Read all complete records. The last record of a cell replaces its earlier ones.

        Raises StoreError if there is no store, if the file is not a store, or if its major version is another one.
        """
        if (self.directory / DOCUMENTS["prediction"]).is_file():
            raise StoreError(
                f"{self.directory} holds a prediction, not measurements: measure with `trio-profile sweep`"
            )
        if not is_begun(self.path):
            raise StoreError(
                f"{self.directory} holds no {MEASUREMENTS}: name a directory of `sweep`, `compare` or `ablate`"
            )
        contents: Contents = Contents(None)  # pyright: ignore[reportArgumentType] - the header, the first line, says it
        reader = LogReader(self.path)
        reader.read(contents.add)
        contents.study, contents.dropped = reader.study, reader.dropped
        return contents

    def require(
        self, study: Study, environment: Environment, inputs: Mapping[str, FileDigest] | None = None
    ) -> Contents:
        """Return the contents, if this program can continue them. Raises the errors of `LogReader.read_to_continue`.

        inputs: the digests of the files as they are now; None does not compare them.
        """
        reader, contents = LogReader(self.path), Contents(study)
        reader.read_to_continue(contents, study, environment, inputs or {})
        contents.study = reader.study
        return contents

    def open(self, study: Study, session: Session) -> Contents:
        """Create the store, or continue one with the same study and the same kind of machine. Return its contents.

        session: is written, and is the last one of the contents. Records without a session get this one.

        Raises StoreError if the study, the environment or a file that is measured differs (it names what differs), or
        if nothing can be written.
        """
        make_directory(self.directory)
        header = Header(study=study)
        if self.exists():
            contents = self.require(study, session.environment, session.inputs)
            if contents.study != study:
                contents.study = study
                self.append(header)
        else:
            contents = Contents(study)
            self.begin(header)
        write_whole(self.directory / STUDY, to_toml(study))
        contents.add(session)
        self.append(session)
        self.session = session.id
        return contents


def to_toml(study: Record, fields: set[str] | None = None) -> str:
    """Return a study as TOML, without the fields that are None. fields: those that its kind takes; None takes all."""
    return tomli_w.dumps(study.model_dump(exclude_none=True, include=fields))
