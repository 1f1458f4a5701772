"""The sizes of decoders that are known by name, from `data/sizes.yaml` and the built-in models."""

from functools import cache
from typing import Any

import yaml

from trio_profile.records.facts import SOURCE

# The fields of a Shape by their names in a config.json.
_WIDTHS = {"num_layers": "num_hidden_layers", "hidden": "hidden_size", "intermediate": "intermediate_size"}
_WIDTHS |= {"heads": "num_attention_heads", "vocabulary": "vocab_size"}


@cache
def known() -> dict[str, Any]:
    """The models whose sizes need no checkpoint, by name: their `config`, `visual_tokens` and `family`."""
    files = (SOURCE.with_name(name).read_text(encoding="utf-8") for name in ("sizes.yaml", "models.yaml"))
    sizes, builtin = map(yaml.safe_load, files)
    return {name: {**builtin.get(name, {}), **facts} for name, facts in sizes.items()}


def widths(config: dict[str, Any]) -> dict[str, int]:
    """The sizes of a decoder in the fields of a Shape. Raises KeyError for one that its config.json does not say."""
    text = config.get("text_config", config)
    sizes = {ours: text[theirs] for ours, theirs in _WIDTHS.items()}
    head_size = text.get("head_dim") or sizes["hidden"] // sizes["heads"]
    kv_width = head_size * (text.get("num_key_value_heads") or sizes["heads"])
    return {**sizes, "query_width": head_size * sizes["heads"], "kv_width": kv_width, "ffn_matrices": 3}
