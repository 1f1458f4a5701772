"""Code that a stored thing names runs only with --trust, and only where something is measured."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.tiny import fast_first
from tests.profile.checkpoints import save_tiny_llava
from tests.profile.command import complaint
from tests.profile.kept import KEPT
from trio_profile.cli import run
from trio_profile.errors import StudyError
from trio_profile.records.study import JUDGE_ANSWERS
from trio_profile.study import asked
from trio_profile.study.kinds import KINDS

MODULE = "sent_to_you"
MARK = "was_imported"
WITH_METHODS = [name for name, kind in KINDS.items() if "methods" in kind.options and not kind.extra]
METHODS = (f"{MODULE}:Rule", f"visionzip+{MODULE}:Rule", f"{MODULE}:Rule+trio", f"{MODULE}.inner:Rule")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once the module was imported. The module lies in the working directory."""
    place = tmp_path / "received"
    place.mkdir()
    (place / f"{MODULE}.py").write_text(
        f"from pathlib import Path\nfrom trio_core.methods.random import Random\nPath({str(place / MARK)!r}).touch()\n"
        "class Rule(Random): pass\n"
    )
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    yield place / MARK  # pyright: ignore[reportReturnType]
    sys.modules.pop(MODULE, None)


def study_file(verb: str, **fields: Any) -> Path:
    lines = [f'verb = "{verb}"', *(f"{name} = {value!r}" for name, value in fields.items())]
    (file := Path("study.toml")).write_text("\n".join(lines).replace("'", '"'))
    return file


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("verb", WITH_METHODS)
def test_a_method_in_a_file_is_named_and_not_imported(verb, method, mark, capsys):
    file = study_file(verb, methods=[method])
    said = complaint(capsys, verb, "--study", file, "--dry-run")
    assert f"module '{MODULE}" in said and "--trust" in said
    assert not mark.exists()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"task_path": "tasks"}, "the functions of the tasks in 'tasks'"),
        ({"attention": "them/kernel"}, "the kernel 'them/kernel' of the hub"),
    ],
)
def test_other_code_that_a_file_names_is_refused(fields, says, mark):
    file = study_file("ablate", tasks=["pope"], **fields)
    with pytest.raises(StudyError, match=says):
        asked.draft("ablate", {}, file)


@pytest.mark.skipif("eval" not in KINDS, reason="no kind has suites")
def test_the_method_of_a_suite_is_refused_too(mark):
    Path("own.yaml").write_text(
        'benchmarks:\n  Shapes: {task: shapes, metrics: ["exact_match,none"]}\n'
        f'tables:\n  mine: {{benchmarks: [Shapes], retentions: [0.5], methods: ["{MODULE}:Rule"]}}\n'
    )
    given = {"suite": "own.yaml", "model": "."}
    with pytest.raises(StudyError, match=f"suite .*own.yaml:mine names .* module '{MODULE}'"):
        asked.draft("eval", given)
    for trusted in ({"trust": True}, {"fields": {"methods": (f"{MODULE}:Rule",)}}):
        fields = given | trusted.pop("fields", {})
        assert asked.draft("eval", fields, **trusted).study.methods == (f"{MODULE}:Rule",)
    assert not mark.exists()


def test_what_the_user_names_or_trusts_is_imported(mark):
    file = study_file("sweep", methods=[f"{MODULE}:Rule"])
    for fields, trust in (({"methods": (f"{MODULE}:Rule",)}, False), ({}, True)):
        asked.draft("sweep", fields, file, trust=trust).complete()
        assert mark.exists()
        mark.unlink()
        sys.modules.pop(MODULE)
    with pytest.raises(StudyError, match=f"module '{MODULE}'"):  # another option of the line does not name the method
        asked.draft("sweep", {"retentions": (0.5,)}, file)


@pytest.mark.parametrize("verb", [verb for verb in JUDGE_ANSWERS if verb in KINDS])
@pytest.mark.parametrize("rule", [f"{MODULE}:rule", f"{MODULE}.inner:rule", [f"{MODULE}:rule"]])
def test_a_function_that_judges_answers_is_chosen_on_the_command_line_alone(verb, rule, mark, capsys):
    file = study_file(verb, match=rule)
    for trust in ((), ("--trust",) * (verb in WITH_METHODS)):
        said = complaint(capsys, verb, "--study", file, "--dry-run", *trust)
        assert "runs a function, which a file cannot choose; give --match" in said and MODULE in said
    assert not mark.exists()
    given = {"dense": "http://localhost:1", "pruned": "http://localhost:2"} if verb == "endpoints" else {}
    assert asked.draft(verb, {"match": "contains", **given}, file).study.match == "contains"
    assert asked.draft(verb, {"match": f"{MODULE}:Rule", **given}, file).complete().match == f"{MODULE}:Rule"
    assert mark.exists()


def test_the_code_of_a_checkpoint_is_not_run_and_nobody_is_asked(mark, tmp_path, capsys, monkeypatch):
    checkpoint = save_tiny_llava(tmp_path / "checkpoint")
    (checkpoint / f"{MODULE}.py").write_text(Path(f"{MODULE}.py").read_text())
    config = json.loads((checkpoint / "config.json").read_text())
    own = dict.fromkeys(("AutoConfig", "AutoProcessor", "AutoModelForImageTextToText"), f"{MODULE}.Rule")
    (checkpoint / "config.json").write_text(json.dumps(config | {"model_type": "unheard_of", "auto_map": own}))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE", 0)
    capsys.readouterr()
    assert "cannot be loaded" in complaint(capsys, "sweep", "--model", checkpoint)
    assert not mark.exists()


VERBS = (
    *(("show",), ("show", "--doubts"), ("show", "--json"), ("report",)),
    *(("export", "--format", form) for form in ("md", "latex", "csv", "json")),
)


@pytest.mark.parametrize("kind", fast_first(KEPT, "sweep", "audit", "endpoints"))
def test_a_reader_imports_nothing_that_a_study_names(kind, mark, capsys):
    """Every method of the study, of its records and of its document lies in the module, and so does the rule."""
    (kept := Path("kept")).mkdir()
    KEPT[kind](kept)
    for file in kept.iterdir():
        if file.suffix in (".json", ".jsonl", ".toml"):
            named = file.read_text().replace('"trio"', f'"{MODULE}:Rule"')
            file.write_text(named.replace('"normalised"', f'"{MODULE}:Rule"'))
    for verb, *options in VERBS:
        assert run([verb, str(kept), *options]) in (0, 2)
    run(["gate", str(kept), str(kept)])
    run(["audit", "trio-2026", "--measured", str(kept)])
    run(["report", str(kept), str(kept / "..") + "/kept", "--out", "both.html"])
    assert "fault of trio-profile" not in capsys.readouterr().err
    assert not mark.exists() and MODULE not in sys.modules
