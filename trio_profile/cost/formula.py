"""What a prefill costs by formula: the paper's equations. Pure integers; nothing here imports torch.

The paper's f(n) counts multiply-adds (MACs) of the dominant products of one layer with a two-matrix FFN and as many key
as query heads. It is FastV's formula, so its name here is `fastv_macs`; TRIO's section "Complexity Analysis" calls its
values FLOPs. n is the paper's n: visual tokens alone, where its printed 2.98 T and 16.67 T come from.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Literal

Causal = Literal["dense", "half"]
Terms = dict[str, int]
"""MACs by the name of what they are for."""


def fastv_macs(n: int, d: int, m: int) -> int:
    """f(n) = 4nd² + 2n²d + 2ndm, MACs of one layer. [TRIO, "Complexity Analysis"; FastV, section 4].

    n: tokens. d: hidden width. m: FFN width.
    """
    return 4 * n * d * d + 2 * n * n * d + 2 * n * d * m


def fastv_inference(tokens_by_layer: Sequence[int], d: int, m: int) -> int:
    """F_inf = Σ over layers of f(its tokens); at stages (1, 10, 15) of 32, f(V0) + 9f(V1) + 5f(V2) + 17f(V3)."""
    return sum(layers * fastv_macs(n, d, m) for n, layers in Counter(tokens_by_layer).items())


def fastv_overhead(stage_tokens: Sequence[int], d: int, m: int, gamma: float = 1) -> int:
    """F_ov = γ · Σ over stages of f(tokens that the stage looks at), rounded to a whole MAC.

    stage_tokens: V0, V1, V2 for three stages. gamma: the compute factor of one local backward relative to a forward.
    """
    return round(Fraction(str(gamma)) * sum(fastv_macs(n, d, m) for n in stage_tokens))


def fastv_saved(tokens_by_layer: Sequence[int], stage_tokens: Sequence[int], d: int, m: int, gamma: float = 1) -> float:
    """Saved = 1 − (F_inf + F_ov) / (L · f(V0)), V0 being the tokens of the first layer."""
    total = fastv_inference(tokens_by_layer, d, m) + fastv_overhead(stage_tokens, d, m, gamma)
    return 1 - total / (len(tokens_by_layer) * fastv_macs(tokens_by_layer[0], d, m))


def attention_macs(n: int, width: int, causal: Causal = "dense") -> int:
    """Scores and values of n queries over n keys, all heads together `width` wide.

    dense: every pair, as counters count it. half: each query and what stands before it, as a causal kernel may run it.
    """
    return 2 * n * n * width if causal == "dense" else n * (n + 1) * width


def layer_terms(
    n: int, d: int, m: int, query_width: int, kv_width: int, ffn_matrices: int, causal: Causal = "dense"
) -> Terms:
    """MACs of one decoder layer as it is, by part.

    Norms, rotary embedding, biases and activations have no products: `layer_elements`. Nor has the embedding, a lookup.
    """
    return {
        "queries and output": 2 * n * d * query_width,
        "keys and values": 2 * n * d * kv_width,
        "scores and values": attention_macs(n, query_width, causal),
        "FFN": ffn_matrices * n * d * m,
    }


def layer_elements(n: int, d: int, m: int, query_width: int, kv_width: int, heads: int, ffn_matrices: int) -> Terms:
    """Numbers that one decoder layer makes without a product, by part: no MACs by any convention in use.

    Some counters charge a few FLOPs for each; even ten of them are a percent of the layer's products.
    """
    return {
        "norms": 2 * n * d,
        "rotary": n * (query_width + kv_width),
        "softmax": heads * n * n,
        "activation": n * m,
        "gating": (ffn_matrices - 2) * n * m,
        "residuals": 2 * n * d,
    }


def layer_macs(
    n: int, d: int, m: int, query_width: int, kv_width: int, ffn_matrices: int, causal: Causal = "dense"
) -> int:
    """MACs of one decoder layer as it is: the sum of `layer_terms`."""
    return sum(layer_terms(n, d, m, query_width, kv_width, ffn_matrices, causal).values())


def decoder_macs(
    tokens_by_layer: Sequence[int],
    d: int,
    m: int,
    query_width: int,
    kv_width: int,
    ffn_matrices: int,
    causal: Causal = "dense",
) -> int:
    """MACs of a whole prefill's decoder: Σ over layers of `layer_macs` of its tokens; text belongs in them."""
    widths = (d, m, query_width, kv_width, ffn_matrices, causal)
    # Layers between two stages have the same tokens.
    return sum(layers * layer_macs(n, *widths) for n, layers in Counter(tokens_by_layer).items())


def decode_macs(
    cached_by_layer: Sequence[int],
    steps: int,
    d: int,
    m: int,
    query_width: int,
    kv_width: int,
    ffn_matrices: int,
    vocabulary: int,
) -> int:
    """MACs of `steps` forwards of one token after a prefill that left so many tokens in each layer's cache, with heads.

    At step i a layer attends to its cached tokens and to the i new ones, the current one included.
    """
    layers = len(cached_by_layer)
    linear = 2 * d * query_width + 2 * d * kv_width + ffn_matrices * d * m
    seen = steps * sum(cached_by_layer) + layers * steps * (steps + 1) // 2
    return steps * (layers * linear + d * vocabulary) + 2 * seen * query_width


def encoder_layer_macs(n: int, d: int, m: int, ffn_matrices: int = 2, windows: Sequence[int] | None = None) -> int:
    """MACs of one layer of a vision tower: as many keys as queries; attention within `windows` of tokens, or over n."""
    attention = sum(attention_macs(size, d) for size in (windows if windows is not None else (n,)))
    return 4 * n * d * d + attention + ffn_matrices * n * d * m


def perceptron_macs(rows: int, widths: Sequence[int]) -> int:
    """Linear layers from width to width over `rows` rows: rows · Σ in · out."""
    return rows * sum(into * out for into, out in pairwise(widths))


def kv_bytes(tokens_by_layer: Sequence[int], kv_width: int, itemsize: int, batch: int = 1) -> int:
    """Bytes of the key-value cache: Σ over layers of tokens · 2 · kv_width · itemsize. Text tokens belong in them."""
    return sum(tokens_by_layer) * 2 * kv_width * itemsize * batch
