"""What docs/reference/support.md says before its tables of setups: families, kernels, rules. Tests compare the page."""

from trio_core.models import families
from trio_core.models.adapter import Adapter

_BEFORE = """\
# What prune() supports

Use this page to find out whether `prune()` works in your setup. Pruning happens, or an error says why not.

## Model families

`trio-profile models --check` tries every family on your machine, on a small model with random weights.

| Family | Class in transformers | Methods that look into the vision tower |
|---|---|---|
"""

_AFTER = """\

FastVLM's tower needs timm. PaliGemma 2 has the class of PaliGemma. [All methods](methods.md) says which methods look into the
vision tower: those with the signal `encoder`. A class that no family covers is tested before it is pruned. If the test fails, the class
is refused with a reason.

## Attention kernels

The model keeps its kernel: pruning never changes it.

| Kernel | Outcome | Limit |
|---|---|---|
| `eager`, `sdpa` | works | none |
| `flash_attention_2`, `flash_attention_3`, `flash_attention_4` | works | In a model with a sliding window, the prompt and the answer must not become longer than the window: the kernel would count only the tokens that are left. Load such a model with `sdpa` or `eager`. |
| `flex_attention` | works | On a CPU it has no backward: TRIO needs its default saliency there (`saliency="tail"`). With torch 2.13 and lengths that change, also set `torch._dynamo.config.automatic_dynamic_shapes = False`. |
| any other, and paged ones | refused | its masks cannot be cut; load the model with eager, sdpa, flex_attention or flash |

## Two rules

- Use a context of `prune()` in one thread only: the thread of its first forward.
- Decode a cache inside the context that filled it.

## Setups

Tests write the tables below. Each row is a setup that a test runs, and a test fails where a row and this page differ.

- *works*: tokens were dropped, and the result was compared with an oracle. The last column names the oracle.
- *refused*: the call raises the error in the last column instead of returning a wrong result.
- `16 → 11 → 6 → 2 picture tokens`: the tokens that were left after each stage.
- *The plain model's tokens are kept*: the same tokens stay as in an ordinary call of the ordinary model.
- *The physically shortened sequence*: the same decoder, written out by hand (`tests/core/reference.py`), with a sequence that
  really has fewer tokens after each stage.
"""


def _families() -> str:
    """A row for each family: its name, its classes, and whether methods can look into its vision tower."""
    rows = []
    for name, adapter in sorted(families.items(), key=lambda item: item[0].lower()):
        classes = ", ".join(f"`{one}`" for one in adapter.classes)
        rows.append(f"| {name} | {classes} | {'work' if adapter.tower is not Adapter.tower else 'refused'} |\n")
    return "".join(rows)


INTRODUCTION = _BEFORE + _families() + _AFTER
"""The page up to its tables of setups."""
