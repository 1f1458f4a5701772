"""The work of a prefill by formula: the paper's equations and a decoder's real products.

All functions take and return whole numbers. Nothing here imports torch.

The paper's f(n) counts multiply-adds (MACs) of one decoder layer. It assumes an FFN of two matrices, and as many key
heads as query heads. It is FastV's formula, so its name here is `fastv_macs`. TRIO's section "Complexity Analysis"
calls its values FLOPs. n is the number of visual tokens alone: this is where the printed 2.98 T and 16.67 T come from.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from trio_profile.records.schema import Shape

Causal = Literal["dense", "half"]
Terms = dict[str, int]
"""MACs by the name of what they are for."""


# --- the paper's formula ------------------------------------------------------------------------------------------


def fastv_macs(n: int, d: int, m: int) -> int:
    """f(n) = 4nd² + 2n²d + 2ndm, MACs of one layer. [TRIO, "Complexity Analysis"; FastV, section 4].

    n: tokens.
    d: hidden width.
    m: FFN width.
    """
    return 4 * n * d * d + 2 * n * n * d + 2 * n * d * m


def fastv_inference(tokens_by_layer: Sequence[int], d: int, m: int) -> int:
    """F_inf = Σ over layers of f(its tokens); at stages (1, 10, 15) of 32, f(V0) + 9f(V1) + 5f(V2) + 17f(V3)."""
    return sum(layers * fastv_macs(n, d, m) for n, layers in Counter(tokens_by_layer).items())


def fastv_overhead(stage_tokens: Sequence[int], d: int, m: int, gamma: float = 1) -> int:
    """F_ov = γ · Σ over stages of f(tokens that the stage looks at), rounded to a whole MAC.

    stage_tokens: V0, V1, V2 for three stages.
    gamma: the work of one local backward relative to a forward.
    """
    return round(Fraction(str(gamma)) * sum(fastv_macs(n, d, m) for n in stage_tokens))


# --- a decoder's own products ---------------------------------------------------------------------------------------


def attention_macs(n: int, width: int, causal: Causal = "dense") -> int:
    """MACs of the scores and the weighted values of n queries over n keys.

    width: of all heads together.
    causal: `dense` counts every pair, as the counters do. `half` counts each query with the keys up to its own
        position, as a causal kernel may run it.
    """
    return 2 * n * n * width if causal == "dense" else n * (n + 1) * width


def layer_terms(n: int, shape: Shape, causal: Causal = "dense") -> Terms:
    """MACs of one decoder layer over n tokens, by part.

    Norms, rotary embedding, biases and activations have no products. The embedding is a lookup.
    """
    return {
        "queries and output": 2 * n * shape.hidden * shape.query_width,
        "keys and values": 2 * n * shape.hidden * shape.kv_width,
        "scores and values": attention_macs(n, shape.query_width, causal),
        "FFN": shape.ffn_matrices * n * shape.hidden * shape.intermediate,
    }


def layer_macs(n: int, shape: Shape, causal: Causal = "dense") -> int:
    """MACs of one decoder layer over n tokens: the sum of `layer_terms`."""
    return sum(layer_terms(n, shape, causal).values())


def decoder_macs(tokens_by_layer: Sequence[int], shape: Shape, causal: Causal = "dense") -> int:
    """MACs of the decoder in one prefill: Σ over layers of `layer_macs`.

    tokens_by_layer: visual and text tokens together.
    """
    # Layers between two stages have the same number of tokens.
    return sum(layers * layer_macs(n, shape, causal) for n, layers in Counter(tokens_by_layer).items())


def decode_macs(cached_by_layer: Sequence[int], steps: int, shape: Shape) -> int:
    """MACs of `steps` forwards of one token each after a prefill, the head included.

    At step i a layer attends to its cached tokens and to the i new ones, the current one included.

    cached_by_layer: tokens that the prefill left in each layer's cache.
    """
    layers = len(cached_by_layer)
    attention_width = 2 * (shape.query_width + shape.kv_width)
    linear = shape.hidden * (attention_width + shape.ffn_matrices * shape.intermediate)
    seen = steps * sum(cached_by_layer) + layers * steps * (steps + 1) // 2
    return steps * (layers * linear + shape.hidden * shape.vocabulary) + 2 * seen * shape.query_width


def kv_bytes(tokens_by_layer: Sequence[int], kv_width: int, itemsize: int, batch: int = 1) -> int:
    """Bytes of the key-value cache: Σ over layers of tokens · 2 · kv_width · itemsize.

    tokens_by_layer: visual and text tokens together.
    itemsize: bytes of one number.
    """
    return sum(tokens_by_layer) * 2 * kv_width * itemsize * batch
