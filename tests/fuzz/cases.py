"""Commands with spoiled files and odd options. A seed gives the same case again."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree

from PIL import Image

from tests.fuzz import mutations
from tests.profile.checkpoints import save_tiny_llava
from tests.profile.cli.test_gate import benchmark_file, kept_study
from tests.profile.kept import KEPT
from trio_profile.cli.verbs import app
from trio_profile.inputs.claims.claims import BUILTIN, TEMPLATE


@dataclass(frozen=True)
class Case:
    """One command.

    arguments: without the program's name.
    judges: whether the verb may say no, with exit code 1.
    """

    arguments: tuple[str, ...]
    judges: bool = False


class Corpus:
    """Good files, from which each case spoils copies.

    directory: where they are kept.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        for name, put in KEPT.items():
            (directory / f"kept-{name}").mkdir()
            put(directory / f"kept-{name}")
        kept_study(directory / "study")
        benchmark_file(directory / "bench.json")
        for path in (TEMPLATE, *sorted(BUILTIN.glob("*.yaml"))):
            copy(path, directory / f"claims-{path.name}")
        model = save_tiny_llava(directory / "checkpoint")
        (folder := directory / "questions").mkdir()
        lines = []
        for name in ("RGB.jpg", "P.gif", "CMYK.tiff", "RGBA.webp", "1.bmp", "LA.png"):
            Image.linear_gradient("L").resize((12, 9)).convert(name.partition(".")[0]).save(folder / name)
            lines.append(f'{{"image": "{name}", "question": "What is it?", "answer": "a cup", "kind": "what"}}')
        (folder / "questions.jsonl").write_text("\n".join(2 * lines))
        for kind in ("sweep", "flops", "layers", "theory"):
            (directory / f"{kind}.toml").write_text(
                f'verb = "{kind}"\nmodel = "{model}"\nretentions = [0.5]\nnew_tokens = 1\n'
                "seconds = 0.01\nprocesses = 1\nseed = 3\nfidelity_inputs = 1\n"
                'prompt = "What is it?"\n[options]\nthreshold = 0.9\n'
            )
        self.options = options()


def options() -> dict[str, list[str]]:
    """The names of every verb's options, as they are typed."""
    import typer

    group = typer.main.get_command(app)
    return {
        name: [flag for option in verb.params for flag in option.opts if flag.startswith("-")]
        for name, verb in group.commands.items()  # pyright: ignore[reportAttributeAccessIssue]
    }


def case(corpus: Corpus, seed: int, directory: Path) -> Case:
    """The case of a seed. Its files are put into `directory`, which is empty."""
    rng = random.Random(seed)
    makers: tuple[tuple[Callable[[Corpus, random.Random, Path], Case], int], ...] = (
        *((_of_kept, 40), (_of_gate, 25), (_of_claims, 20), (_of_study, 8), (_of_questions, 5), (_of_options, 15)),
    )
    (make,) = rng.choices([make for make, _ in makers], [weight for _, weight in makers])
    found = make(corpus, rng, directory)
    if rng.random() < 0.1:  # an odd value anywhere on the line
        arguments = list(found.arguments)
        arguments.insert(rng.randrange(1, len(arguments) + 1), _given(rng.choice(mutations.NASTY_TEXTS)))
        found = Case(tuple(arguments), found.judges)
    return found


def _given(text: str) -> str:
    """What a shell can pass: no NUL. A lone surrogate stands for a byte that is not UTF-8."""
    return text.replace("\x00", "")


def _spoil(path: Path, rng: random.Random) -> None:
    """Spoil a file, or put something else in its place."""
    if rng.random() < 0.06:
        mutations.put_odd_file(path, rng)
        return
    change = (
        mutations.spoiled_json if path.suffix in (".json", ".jsonl") and rng.random() < 0.7 else mutations.spoiled_text
    )
    path.write_bytes(change(path.read_bytes(), rng))


def _form(rng: random.Random) -> list[str]:
    return rng.choice(([], [], ["--json"], ["--markdown"], ["--latex"], ["--all"]))


def _of_kept(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    kept = copytree(corpus.directory / f"kept-{rng.choice(list(KEPT))}", directory / "kept")
    _spoil(rng.choice([path for path in sorted(kept.iterdir()) if path.is_file()]), rng)
    verb = rng.choices(("show", "doubts", "report", "export"), (6, 4, 1, 2))[0]
    form = [flag for flag in _form(rng) if flag != "--all" or verb == "show"]
    if verb == "doubts":
        strict = rng.choice(([], ["--strict"]))
        return Case(("show", str(kept), "--doubts", *form, *strict), judges=bool(strict))
    if verb == "export":
        form = ["--format", rng.choice(("md", "latex", "csv", "json")), *rng.choice(([], ["--pairs"], ["--cells"]))]
    return Case((verb, str(kept), *form))


def _of_gate(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    """Two studies, or two files of pytest-benchmark, of which one is spoiled."""
    if rng.random() < 0.6:
        base = corpus.directory / "study"
        new = copytree(base, directory / "new")
        _spoil(new / "measurements.jsonl", rng)
    else:
        base = corpus.directory / "bench.json"
        new = Path(copy(base, directory / "new.json"))
        _spoil(new, rng)
    sides = [str(base), str(new)]
    rng.shuffle(sides)
    other = [] if rng.random() < 0.8 else ["--allow-other-environment"]
    return Case(("gate", *sides, *_form(rng), *other), judges=True)


def _of_claims(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    path = directory / "claims.yaml"
    path.write_bytes(rng.choice(sorted(corpus.directory.glob("claims-*"))).read_bytes())
    _spoil(path, rng)
    strict = ["--strict"] if rng.random() < 0.2 else []
    return Case(("audit", str(path), *_form(rng), *strict), judges=bool(strict))


def _of_study(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    source = rng.choice(sorted(corpus.directory.glob("*.toml")))
    path = directory / source.name
    path.write_bytes(source.read_bytes())
    _spoil(path, rng)
    return Case((source.stem, "--study", str(path), "--out", str(directory / "out")))


def _of_questions(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    folder = copytree(corpus.directory / "questions", directory / "questions")
    _spoil(rng.choice(sorted(folder.iterdir())), rng)
    model = str(corpus.directory / "checkpoint")
    if rng.random() < 0.5:
        pictures = [path for path in sorted(folder.iterdir()) if path.suffix != ".jsonl"]
        asked = ("--image", str(rng.choice(pictures)))
    else:
        asked = ("--questions", str(folder / "questions.jsonl"))
    sampling = ("--retention", "0.5", "--seconds", "0.01", "--processes", "1", "--new-tokens", "1", "--asked", "1")
    return Case(("sweep", "--model", model, *asked, *sampling, "--out", str(directory / "out")))


def _of_options(corpus: Corpus, rng: random.Random, directory: Path) -> Case:
    """A verb with one odd option. What would measure is planned only, on a model that is loaded at once."""
    verb = rng.choice(list(corpus.options))
    arguments = [verb]
    if verb in ("show", "report", "export"):
        arguments.append(str(corpus.directory / f"kept-{rng.choice(list(KEPT))}"))
    if verb == "gate":
        arguments += [str(corpus.directory / "study"), str(corpus.directory / "study")]
    if verb == "audit":
        arguments.append(rng.choice(("trio-2026", "trio-2026", _given(rng.choice(mutations.NASTY_TEXTS)))))
    if verb in ("sweep", "compare", "layers", "theory", "ablate", "flops"):
        arguments += ["--model", str(corpus.directory / "checkpoint"), "--dry-run"]
    if verb == "models":  # its check takes a minute
        return Case(("models", _given(rng.choice(mutations.NASTY_TEXTS))))
    if verb == "eval":
        arguments.append("--dry-run")
    if verb == "serve":  # this model is refused last, and any other one would be served without an end
        arguments += ["llava-1.5-7b", "--port", "0"]
    for _ in range(rng.choice((1, 1, 2))):
        arguments.append(rng.choice(corpus.options[verb]))
        if rng.random() < 0.85:
            arguments.append(_given(rng.choice(mutations.NASTY_TEXTS)))
    # What is written by default goes to the case's own directory.
    if verb in ("sweep", "compare", "ablate") and "--out" not in arguments:
        arguments += ["--out", str(directory / "out")]
    return Case(tuple(arguments), judges=verb == "gate" or "--strict" in arguments)
