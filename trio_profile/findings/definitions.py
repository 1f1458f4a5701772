"""How the numbers are defined: one meaning for each name, in the report and in the JSON."""

from trio_profile.findings.blocks import Page, Terms

DEFINITIONS = (
    (
        "Retention",
        "The share of visual tokens kept, averaged over the decoder's layers. The first layers, which are not pruned, "
        "count too. Budgets are whole tokens, so the realised retention can differ from the nominal one. The charts "
        "show the realised one.",
    ),
    (
        "Speed-up",
        "The median of paired ratios, dense time over pruned time. Dense and pruned run in turn, in random order "
        "within a pair, on the same input in the same process. The 95 % interval comes from resampling the pairs in "
        "blocks of neighbours (block bootstrap), because neighbours may share a disturbance. Sampling ends when the "
        "interval is as narrow as asked (converged), when it narrows no more (plateau), or when time is up (budget).",
    ),
    (
        "Break-even",
        "The retention at which the ratio of costs, pruned over dense, crosses 1. Measured ratios are fitted so that "
        "the cost never falls as retention grows; the interval comes from resampling the pairs. For counts it is "
        "the exact crossing of the line through the sweep.",
    ),
    (
        "Other medians",
        "A median of single times, such as the milliseconds of selection, has the 95 % interval of the sign test. It "
        "assumes independent samples, and no shape of the noise.",
    ),
    (
        "Prefill and total",
        "Prefill ends with the first new token. Total ends with the last new token.",
    ),
    (
        "MACs by formula",
        "The paper's f(n) = 4nd² + 2n²d + 2ndm, summed over layers, plus γ · Σ f(n) over the stages for selection. It "
        "counts visual tokens alone, and a feed-forward network of two matrices. In the JSON: fastv_macs.",
    ),
    (
        "MACs counted",
        "Half of the floating-point operations that the counter saw in one prefill. Selection, text tokens, the head "
        "and the whole feed-forward network are included. One MAC is two FLOPs. In the JSON: counted_macs.",
    ),
    (
        "Selection, γ",
        "Selection is the counted work of deciding which tokens stay. γ is that work over one forward of each layer "
        "that was probed: the formula assumes it, the counter finds it.",
    ),
    (
        "KV cache",
        "Bytes of keys and values held after prefill, summed over layers. The prediction is tokens in each layer × 2 × "
        "the width of the keys × the bytes of one number.",
    ),
    (
        "What is not here",
        "Without known answers, whether the answers stay right. A pruned model that is faster may still be wrong.",
    ),
)


def numbers_page() -> Page:
    """How the numbers of sweeps, comparisons and ablations are defined."""
    return Page(
        "numbers",
        "How the numbers are defined",
        "A name has the same meaning in this report and in the JSON that this file holds.",
        [Terms("", DEFINITIONS, detail=True)],
    )
