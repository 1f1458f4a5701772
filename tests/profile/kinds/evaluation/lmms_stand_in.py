"""The few pieces of lmms-eval 0.7.3 that `trio_profile/kinds/evaluation/lmms.py` calls, for machines without lmms-eval.

They take and give what lmms-eval's do: a task's YAML with its `!function`, requests whose `args` are (context,
messages, options, document, task, split), results by `metric,filter` and logged samples. A dataset is a directory of
pictures with metadata.jsonl; a metric is exact_match or what `process_results` says, and its mean or what `aggregation`
says. The tests run on both where both can be had.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml
from PIL import Image

BUILT_IN = ("gqa", "pope", "pope_adv")
IMPORTERS = ("trio_profile.kinds.evaluation.run", "trio_profile.kinds.evaluation.lmms")
"""The modules that import lmms-eval."""


class Lmms:
    is_simple = True

    def __init__(self) -> None:
        self.task_dict: dict[str, Any] = {}


_DEFAULTS = {"process_results": None, "generation_kwargs": {}, "doc_to_messages": None, "doc_to_visual": None}


class Task:
    def __init__(self, path: Path):
        config = yaml.load(path.read_text(), _loader(path.parent))
        self.config = SimpleNamespace(**_DEFAULTS | config)
        self.OUTPUT_TYPE = config["output_type"]
        if not Path(config["dataset_kwargs"]["data_dir"]).is_dir():
            raise RuntimeError from FileNotFoundError("no such dataset\nand a second line")
        directory = Path(config["dataset_kwargs"]["data_dir"]) / config["test_split"]
        rows = [json.loads(line) for line in (directory / "metadata.jsonl").read_text().splitlines()]
        docs = [row | {"image": Image.open(directory / row.pop("file_name"))} for row in rows]
        self.dataset = {config["test_split"]: docs}

    def doc_to_messages(self, doc: dict[str, Any]) -> Any:
        if self.config.doc_to_messages is not None:
            return self.config.doc_to_messages(doc)
        content = [_content(visual) for visual in self.config.doc_to_visual(doc)]
        return [{"role": "user", "content": [*content, {"type": "text", "text": doc[self.config.doc_to_text]}]}]


class TaskManager:
    def __init__(self, include_path: str | None = None):
        paths = sorted(Path(include_path).rglob("*.yaml")) if include_path else []
        self._paths = {_name(path): path for path in paths}

    @property
    def all_tasks(self) -> list[str]:
        return sorted({*BUILT_IN, *self._paths})

    def load_task_or_group(self, task_list: list[str], task_type: str) -> dict[str, Task]:
        assert task_type == "chat"
        return {name: Task(self._paths[name]) for name in task_list}


def simple_evaluate(
    model: Any,
    *,
    tasks: list[str],
    task_manager: TaskManager,
    limit: int | None,
    log_samples: bool,
    bootstrap_iters: int,
    random_seed: int,
    numpy_random_seed: int,
    torch_random_seed: int,
    cli_args: Any,
) -> dict[str, Any]:
    print("lmms-eval may print what it likes")
    found: dict[str, Any] = {"results": {}, "samples": {}, "higher_is_better": {}, "configs": {}}
    asked: list[tuple[str, Task, int, dict[str, Any], Any]] = []
    found_tasks = task_manager.load_task_or_group(tasks, "simple" if model.is_simple else "chat")
    for name, task in found_tasks.items():
        config, split = task.config, task.config.test_split
        found["configs"][name] = vars(config)
        model.task_dict[name] = task.dataset
        for number, doc in enumerate(task.dataset[split][:limit]):
            options = dict(config.generation_kwargs)
            args = (doc[config.doc_to_text], task.doc_to_messages, options, number, name, split)
            asked.append((name, task, number, doc, SimpleNamespace(args=args)))
    said = model.generate_until([request for *_, request in asked])
    for (name, task, number, doc, _), text in zip(asked, said, strict=True):
        score = task.config.process_results or _exact_match
        rows = found["samples"].setdefault(name, [])
        rows.append({"doc_id": number, "filtered_resps": [text], **score(doc, [text])})
    model.clean()
    for name, rows in found["samples"].items():
        found["results"][name] = {"alias": name}
        found["higher_is_better"][name] = {}
        for listed in found_tasks[name].config.metric_list:
            metric, aggregation = listed["metric"], listed["aggregation"]
            values = [row[metric] for row in rows]
            # lmms-eval passes the arguments of its command line to functions that ask for them.
            value = sum(values) / len(values) if aggregation == "mean" else aggregation(values, args=cli_args)
            found["results"][name] |= {f"{metric},none": value, f"{metric}_stderr,none": "N/A"}
            found["higher_is_better"][name][metric] = True
    return found


def install() -> dict[str, ModuleType]:
    """The modules by the names under which they are imported."""
    pieces = {
        "lmms_eval": {},
        "lmms_eval.api": {},
        "lmms_eval.api.model": {"lmms": Lmms},
        "lmms_eval.evaluator": {"simple_evaluate": simple_evaluate},
        "lmms_eval.tasks": {"TaskManager": TaskManager},
    }
    modules = {name: ModuleType(name) for name in pieces}
    for name, contents in pieces.items():
        vars(modules[name]).update(contents)
    return modules


def _content(visual: Any) -> dict[str, Any]:
    if isinstance(visual, Image.Image):
        return {"type": "image", "url": visual}
    if isinstance(visual, str):
        return {"type": "video", "url": visual}
    raise TypeError(f"Unsupported visual type: {type(visual)}")


def _exact_match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"exact_match": float(results[0].lower() == doc["answer"].lower())}


def _name(path: Path) -> str:
    match = re.search(r"^task: (\S+)", path.read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def _loader(directory: Path) -> type[yaml.SafeLoader]:
    class Loader(yaml.SafeLoader):
        pass

    def function(loader: Any, node: Any) -> Any:
        module, _, name = loader.construct_scalar(node).partition(".")
        spec = importlib.util.spec_from_file_location(f"{module}_{abs(hash(directory))}", directory / f"{module}.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = made
        spec.loader.exec_module(made)
        return getattr(made, name)

    Loader.add_constructor("!function", function)
    return Loader
