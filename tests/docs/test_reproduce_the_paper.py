"""Each command of docs/reproduce-the-paper.md runs, on tiny checkpoints of the families that it names."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import skimage.data
import yaml

from tests import warm
from tests.docs.blocks import ROOT, Use, read
from tests.profile.family_checkpoints import save_family
from tests.profile.kinds.evaluation import lmms_stand_in
from trio_core.models import families
from trio_profile.cli import run
from trio_profile.profilers import flops_counted

PAGE = ROOT / "docs" / "reproduce-the-paper.md"
FAMILIES = {
    "llava-hf/llava-1.5-7b-hf": ("LLaVA-1.5", 32),
    "llava-hf/llava-v1.6-vicuna-7b-hf": ("LLaVA-NeXT", 32),
    "Qwen/Qwen2.5-VL-7B-Instruct": ("Qwen2.5-VL", 28),
}
"""The family of each checkpoint that the page names, and the depth of its decoder, from which the stages follow."""
TINY = {
    "cuda": "cpu",
    "1016064,1016064": "2304,2304",  # the pixels of 6 × 6 tokens
    "0.11,0.22,0.33,0.44,0.55,0.66,0.77": "0.11,0.77",
    "0.11,0.22,0.33": "0.11,0.33",
    "100": "10",  # questions of `theory`
}
"""What stands for the sizes of the page."""
SHORT = {
    "eval": ["--limit", "1"],
    "ablate": ["--limit", "1"],
    "layers": ["--seconds", "0.01", "--new-tokens", "2"],
    "sweep": ["--seconds", "0.01", "--processes", "1", "--new-tokens", "2"],
    "theory": ["--retention", "0.33"],
    "compare": ["--seconds", "0.01", "--processes", "1", "--new-tokens", "2", "--asked", "1"],
}
"""Further options of a verb, so that it takes seconds."""


LONG = ("compare", "sweep", "theory")
"""Verbs that need no lmms-eval and run in a process of their own, where no shapes are checked."""


def commands() -> list[str]:
    """The commands that the page does not run by itself, because they need weights."""
    blocks = [block for block in read(PAGE) if block.use is Use.NEED]
    assert all(block.language == "bash" for block in blocks)
    joined = "\n".join(block.text.replace("\\\n", " ") for block in blocks)
    return [line for line in joined.splitlines() if line]


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The checkpoints by their names on the page; beside them `place`, where the commands run, and `tasks`."""
    directory = tmp_path_factory.mktemp("paper")
    found = {"place": directory / "place", "tasks": directory / "tasks"}
    found["place"].mkdir()
    shutil.copy(Path(skimage.data.data_dir) / "chelsea.png", found["place"] / "photo.png")
    asked = [json.dumps({"image": "photo.png", "question": f"What is w{number}?"}) for number in range(10)]
    for name in ("pope.jsonl", "textvqa.jsonl"):
        (found["place"] / name).write_text("\n".join(asked))
    _write_tasks(found["tasks"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found["place"])
        for name, (family, depth) in FAMILIES.items():
            patch.setitem(families[family].toy_text, "num_hidden_layers", depth)
            found[name] = save_family(family, directory / family)
        for name, module in lmms_stand_in.install().items():
            patch.setitem(sys.modules, name, module)
        patch.setattr("importlib.metadata.version", lambda _: "0.7.3")
        patch.setattr(flops_counted, "fvcore", lambda *_: (None, "not asked"))  # a third of the time of `layers`
        yield found
        for name in lmms_stand_in.IMPORTERS:
            sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_runs(command: str, paper: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    program, verb, *words = shlex.split(command)
    assert program == "trio-profile"
    arguments = [str(paper.get(word, TINY.get(word, word))) for word in words]
    if "--tasks" in words or "--suite" in words:
        arguments += ["--task-path", str(paper["tasks"])]
    if verb == "eval" and "--retention" not in words:
        arguments += ["--retention", "0.333"]  # one of the table's three
    arguments = [verb, *arguments, *SHORT.get(verb, ())]
    if verb in LONG:
        done = warm.call(*arguments)
        assert done.returncode == 0, done.stderr
    else:
        assert run(arguments) == 0, capsys.readouterr().err


def _write_tasks(directory: Path) -> None:
    """Tasks with the names and the metrics of the suite's, each with two questions about the photograph."""
    pictures = directory / "data" / "test"
    pictures.mkdir(parents=True)
    shutil.copy(Path(skimage.data.data_dir) / "chelsea.png", pictures / "0.png")
    rows = [{"file_name": "0.png", "question": f"What is w{number}?", "answer": "w1"} for number in range(2)]
    (pictures / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    suite = yaml.safe_load((ROOT / "trio_profile" / "data" / "suites" / "trio.yaml").read_text(encoding="utf-8"))
    functions = ["def pictures(doc):\n    return [doc['image'].convert('RGB')]\n"]
    for benchmark in suite["benchmarks"].values():
        task, metrics = benchmark["task"], [metric.partition(",")[0] for metric in benchmark["metrics"]]
        scores = dict.fromkeys(metrics, 1.0)
        functions.append(f"def {task}(doc, results):\n    return {scores}\n")
        listed = [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in metrics]
        (directory / f"{task}.yaml").write_text(f"""\
task: {task}
dataset_path: imagefolder
dataset_kwargs: {{data_dir: {directory / "data"}}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.pictures
doc_to_text: question
doc_to_target: answer
generation_kwargs: {{max_new_tokens: 2}}
process_results: !function utils.{task}
metric_list: {json.dumps(listed)}
""")
    (directory / "utils.py").write_text("\n\n".join(functions))
