"""The names and facts of methods and built-in models, and the checks of names and files, all without torch.

`scripts/catalogue` writes the stored facts from the classes. So a wrong name is refused, and
a list is printed, before torch is imported.
"""

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trio_profile.errors import StudyError
from trio_profile.inputs.trained import trained_as
from trio_profile.installation import CORE
from trio_profile.reading import is_regular, parse_json, read_text
from trio_profile.records.decoders import known, widths
from trio_profile.records.facts import SOURCE, MethodFacts, models, stored
from trio_profile.records.schema import Shape
from trio_profile.records.study import Study
from trio_profile.text import first_line

if TYPE_CHECKING:
    from trio_core.methods.method import Method
    from trio_core.rules.cost import LayerShape

NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""For every `from_pretrained`: the code of a checkpoint is not run. Without it transformers asks on the terminal."""
_DEVICE = re.compile(r"cpu|meta|cuda(:\d+)?")
_MOST_BYTES = 1_000_000
_HUB_SECONDS = 10
"""How long the hub may take to answer."""

# The declared cost of a method's selections is that of one prompt of LLaVA-1.5-7B.
RETENTION = 1 / 3
"""The retention of the declared cost; every method can reach it."""
TEXT_TOKENS, TEXT_AFTER = 60, 25
"""The text tokens of its input, and those of them that stand after the picture."""


@cache
def methods() -> dict[str, MethodFacts]:
    """The facts of all methods of trio_core, by name.

    If a file of `trio_core/methods` was added or changed since the catalogue was written, the classes are imported.
    """
    if method_files() in ({}, stored()["files"]):
        return {facts["name"]: MethodFacts(**facts | {"needs": tuple(facts["needs"])}) for facts in stored()["methods"]}
    from trio_core.methods import registry

    return {name: facts_of(cls) for name, cls in sorted(registry.items()) if cls.__module__.startswith("trio_core.")}


def method_files() -> dict[str, str]:
    """The digests of the files in `trio_core/methods`, by their names. Empty if they are missing."""
    return {file.name: sha256(file.read_bytes()).hexdigest()[:16] for file in sorted((CORE / "methods").glob("*.py"))}


def method_names() -> list[str]:
    """The names of all methods, sorted: those of trio_core, of installed packages, and of classes imported so far."""
    imported = sys.modules.get("trio_core.methods.method")
    installed = (entry.name for entry in entry_points(group="trio_core.methods"))
    return sorted({*methods(), *installed, *(imported.registry if imported else ())})


def prompt_of_llava() -> Shape:
    """The sizes of that prompt and of LLaVA-1.5-7B."""
    facts = known()["llava-1.5-7b"]
    vision, visual = facts["config"]["vision_config"], facts["visual_tokens"]
    tower = {"vision_hidden": vision["hidden_size"], "vision_heads": vision["num_attention_heads"], "patches": visual}
    prompt = {"visual_tokens": visual, "text_tokens": TEXT_TOKENS, "text_after": TEXT_AFTER, "batch": 1, "itemsize": 2}
    return Shape(**widths(facts["config"]), **tower, **prompt)


def layer_shape(shape: Shape) -> "LayerShape":
    """Return the widths of a decoder layer and of the vision tower."""
    from trio_core.rules.cost import LayerShape

    return LayerShape(**{field.name: getattr(shape, field.name) for field in fields(LayerShape)})


def facts_of(cls: "type[Method]") -> MethodFacts:
    """The facts of a method's class. The cost of its selections is declared by the method, not measured.

    Raises MethodError if the class raises an error.
    """
    from trio_core.methods.method import blamed
    from trio_core.rules.cost import PromptSizes
    from trio_profile.cost.formula import layer_macs

    shape = prompt_of_llava()
    visual, text = shape.visual_tokens, shape.text_tokens
    with blamed(cls):
        method, summary = cls(retention=RETENTION), cls.summary()
        schedule, prompt = method.schedule(visual, shape.num_layers), PromptSizes(visual, text, shape.text_after)
        macs = method.selection_macs(layer_shape(shape), schedule, prompt)
    return MethodFacts(
        name=cls.name,
        summary=summary,
        stage=str(cls.stage),
        media=cls.media,
        needs=tuple(sorted(map(str, cls.needs))),
        selection_macs=macs,
        selection_share=macs / layer_macs(visual + text, shape),
        options={field.name: field.default for field in fields(cls)},
        reference=asdict(cls.reference),
        remark=cls.reference.remark,
        selection=_selection(cls),
    )


def _selection(cls: "type[Method]") -> dict[str, Any]:
    """The work of a selection, and where it acts. Empty for a method that does not say it in `data/selections.yaml`."""
    stated = yaml.safe_load(SOURCE.with_name("selections.yaml").read_text(encoding="utf-8"))
    places = {"layers": cls.paper_layers, "scales_layers": cls.scales_layers, "proportion": cls.proportion}
    places["leaves_out_stages"] = getattr(cls, "leaves_out_stages", False)
    return {**stated[cls.name], "source": stated["source"], **places} if cls.name in stated else {}


# --- checks ---------------------------------------------------------------------------------------------------------


def require_method(name: str) -> None:
    """Raise UnknownName or OptionError for a name that no method can have. Classes of users are not imported.

    name: the name of a method, or `package.module:Class`, or two of these with a `+` between them.
    """
    from trio_core.errors import OptionError, UnknownName

    for part in name.split("+"):
        root = part.partition(":")[0].partition(".")[0]
        if ":" in part and root and root not in sys.modules and not _is_importable(root):
            raise OptionError(
                f"method {part!r} cannot be imported (No module named {root!r}); name it as package.module:ClassName"
            )
        if part and ":" not in part and part not in (known := method_names()):
            raise UnknownName("method", part, known, "or name your own as package.module:ClassName")


def _is_importable(root: str) -> bool:
    try:
        return find_spec(root) is not None
    except (ImportError, ValueError):
        return False


def require_device(name: str) -> None:
    """Raise StudyError for a device that no machine has."""
    if not _DEVICE.fullmatch(name):
        raise StudyError(f"device {name!r} is none that can be timed; choose cpu or cuda")


def require_model(name: str, more: Iterable[str] = ()) -> None:
    """Raise StudyError unless a name is a built-in model, a directory, or the name of a hub repository.

    more: further models whose sizes are built in.
    """
    # The empty path would mean the working directory.
    if name not in models() and not (name and Path(name).is_dir()) and not _is_hub_name(name):
        raise StudyError(
            f"unknown model {name!r}: built in are {', '.join(sorted({*models(), *more}))}; "
            "otherwise name a checkpoint directory or a hub repository (owner/name)"
        )


def require_reachable(name: str) -> None:
    """Raise StudyError if the configuration of a model of the hub is neither on this machine nor can be downloaded."""
    if name not in models() and not Path(name).is_dir():
        config_file(name)


def config_file(name: str) -> Path:
    """The config.json of a checkpoint, which is downloaded if it is on the hub.

    Raises StudyError if it cannot be.
    """
    if Path(name).is_dir():
        return Path(name) / "config.json"
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    try:
        if isinstance(kept := try_to_load_from_cache(name, "config.json"), str):
            return Path(kept)
        _require_hub()
        return Path(hf_hub_download(name, "config.json", etag_timeout=_HUB_SECONDS))
    except Exception as error:  # of the hub, the network or the disk
        raise StudyError(f"model {name!r} cannot be loaded: {first_line(error)}") from error


def _require_hub() -> None:
    """Raise OSError if the hub does not answer. huggingface_hub itself would try again for half a minute."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:  # huggingface_hub says so
        return
    with suppress(HTTPError), urlopen(Request(ENDPOINT, method="HEAD"), timeout=_HUB_SECONDS):
        pass


def num_layers(name: str) -> int:
    """The number of decoder layers of a model. Raises StudyError if there is no such model, or if it has no depth."""
    if (known := known_num_layers(name)) is not None:
        return known
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, **NO_CODE).get_text_config().num_hidden_layers
    except Exception as error:  # of a foreign configuration
        raise StudyError(f"model {name!r} cannot be loaded: {first_line(error)}") from error


def known_num_layers(name: str) -> int | None:
    """The number of decoder layers that a model's configuration states. None if it is left to the model's class.

    Raises StudyError if there is no such model, or if its configuration cannot be read.
    """
    if name in models():
        return models()[name].layers
    require_model(name)
    config = read_config(name)
    text = config.get("text_config")
    number = (text if isinstance(text, dict) else config).get("num_hidden_layers")
    return number if type(number) is int else None


def read_config(name: str) -> dict[str, Any]:
    """The configuration of a checkpoint; empty if it has none. Raises StudyError if it cannot be read."""
    path = config_file(name)
    if not is_regular(path):
        return {}
    try:
        config = parse_json(read_text(path, _MOST_BYTES))
    except (OSError, ValueError) as error:
        raise StudyError(f"model {name!r}: config.json cannot be read: {first_line(error)}") from error
    return config if isinstance(config, dict) else {}


def has_own_questions(study: Study) -> bool:
    """Whether the model was trained on questions that we have, and the study sets no picture, video or prompt."""
    has_own_input = any(value is not None for value in (study.image, study.video, study.prompt))
    return not has_own_input and trained_as(study.model) is not None


def _is_hub_name(name: str) -> bool:
    owner, slash, repository = name.partition("/")
    return bool(slash and owner and repository) and "/" not in repository and owner not in (".", "..", "~")
