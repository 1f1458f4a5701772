"""The cost of a method's selections as the method declares it, at one size that all methods share: LLaVA-1.5-7B."""

from trio_core.methods.method import Method
from trio_core.rules.cost import LayerShape
from trio_profile.cost.formula import layer_macs

RETENTION = 1 / 3
"""The retention used; every method can reach it."""
VISUAL_TOKENS, TEXT_TOKENS, TEXT_AFTER = 576, 60, 25
"""The input used: visual tokens, text tokens, and those of them that stand after the picture."""
NUM_LAYERS = 32
SHAPE = LayerShape(
    hidden=4096,
    intermediate=11008,
    query_width=4096,
    kv_width=4096,
    heads=32,
    vocabulary=32064,
    ffn_matrices=3,
    vision_hidden=1024,
    vision_heads=16,
    patches=576,
)


def selection_cost(cls: type[Method]) -> tuple[int, float]:
    """Return the declared MACs of all selections of a method, and their share of one dense decoder layer."""
    method = cls(retention=RETENTION)
    macs = method.selection_macs(SHAPE, method.schedule(VISUAL_TOKENS, NUM_LAYERS), TEXT_TOKENS, TEXT_AFTER)
    return macs, macs / layer_macs(VISUAL_TOKENS + TEXT_TOKENS, SHAPE)
