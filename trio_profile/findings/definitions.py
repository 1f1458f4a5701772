"""How the numbers are defined: one meaning for each name, in the report and in the JSON."""

from trio_profile.findings.blocks import Page, Terms

WAIT_POLICIES = {
    "brief": "spin for a moment, then sleep (OMP_WAIT_POLICY=PASSIVE, GOMP_SPINCOUNT=2000)",
    "passive": "sleep at once (OMP_WAIT_POLICY=PASSIVE)",
    "active": "spin: on a busy machine they take the CPU from the thread that they wait for",
    "one thread": "none, there is one thread",
}
"""What threads do while they wait, by `Environment.wait_policy`."""
ALLOCATORS = {
    "keeps memory": "kept by the process, so that no prefill fetches its pages again",
    "returns memory": "returned to the system: each prefill fetches some pages again",
    "system": "left to the system's allocator",
}
"""What happens to freed memory, by `Environment.allocator`. Other values are names of allocators."""

DEFINITIONS = (
    (
        "Retention",
        "The share of visual tokens kept, averaged over the decoder's layers. The first layers, which are not pruned, "
        "count too. Budgets are whole tokens, so the realised retention can differ from the nominal one. The charts "
        "show the realised one.",
    ),
    (
        "Speed-up",
        "The median of paired ratios, dense time / pruned time. Dense and pruned run in turn in one process, in a "
        "balanced order, on the same input. With several processes: the geometric mean of their medians, with "
        "Student's t interval over them. On a CPU it allows for the state of the machine too, which all processes of a "
        "study share. It covers another run on this machine, not another machine. With one process: an interval that "
        "allows for similar neighbours; another run may differ by more. Sampling in a process ends when its interval "
        "is as narrow as asked (converged), when it no longer narrows (plateau), or when time is up (budget). The "
        "interval over all processes may still be wider.",
    ),
    (
        "Break-even",
        "The retention at which the ratio of costs, pruned over dense, crosses 1. Measured ratios are fitted so that "
        "the cost never falls as retention grows. The interval is where the 95 % band around the fit contains 1. For "
        "counts it is the exact crossing of the line through the sweep.",
    ),
    (
        "CPU time",
        "On a CPU: the time that all threads of the process worked during the prefill, added up. Other processes that "
        "take the CPU hardly change it, so its ratio is steadier on a busy machine. It is not the time that a user "
        "waits, and it never replaces the speed-up.",
    ),
    (
        "Other medians",
        "The 95 % interval of a median of single times, such as the milliseconds of selection, is made as that of a "
        "speed-up.",
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
        "If no answers are known, this page does not say whether they stay right. A pruned model that is faster may "
        "still be wrong.",
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
