"""How the numbers are defined: one meaning for each name, in the report and in the JSON."""

from trio_profile import units
from trio_profile.findings.blocks import Page, Terms
from trio_profile.glossary import find, terms
from trio_profile.records.schema import Environment

WAIT_POLICIES = {
    "brief": "spin for a moment, then sleep (OMP_WAIT_POLICY=PASSIVE, GOMP_SPINCOUNT=2000)",
    "passive": "sleep at once (OMP_WAIT_POLICY=PASSIVE)",
    "active": "spin: on a busy machine they take the CPU from the thread that they wait for",
    "one thread": "none, there is one thread",
}
"""The action of threads that wait, by `Environment.wait_policy`."""
ALLOCATORS = {
    "keeps memory": "kept by the process, so that no prefill fetches its pages again",
    "returns memory": "returned to the system: each prefill fetches some pages again",
    "system": "left to the system's allocator",
}
"""The fate of freed memory, by `Environment.allocator`. Other values are names of allocators."""

DEFINITIONS = {
    "retention": "Budgets are whole tokens, so the realised retention can differ from the nominal one. The charts show "
    "the realised one.",
    "paired ratio": "",
    "speed-up": "A round runs every cell once and the dense model several times, in a random order. Timing ends when "
    "every interval is as narrow as asked (converged), or when the time is spent (budget).",
    "interval": "It follows from the spread between processes, which cells with similar spreads share. On a CPU it "
    "allows for the state of the machine too, which all processes of a study have in common. With one process, groups "
    "of neighbouring rounds stand for processes, and another run may differ by more. The interval of a median of "
    "single times, such as the milliseconds of selection, is made in the same way.",
    "break-even": "Retentions are tested one after another, from the lowest up for a gain and from the highest down "
    "for a loss, until a test fails. So the certain gain and the certain loss hold at 95 % for all retentions at once. "
    "The point is where fitted ratios, which never fall, cross 1. For counts it is the exact crossing.",
    "prefill": "",
    "total": "",
    "CPU time": "Other processes that take the CPU hardly change it, so its ratio is steadier on a busy machine.",
    "fastv_macs": "",
    "counted_macs": "",
    "selection": "",
    "gamma": "The paper's appendix has γ = 1 + β, where β is the work of a backward pass, and prints no value. So γ = "
    "1 is a backward pass that costs nothing, and a factor below 1 is no γ of the paper.",
    "KV cache": "The prediction is tokens in each layer × 2 × the width of the keys × the bytes of one number.",
}
"""The text of a report on a term, after its meaning in the glossary."""


def numbers_page() -> Page:
    """How the numbers of sweeps, comparisons and ablations are defined."""
    items = [(name, f"{find(name).meaning} {more}".rstrip()) for name, more in DEFINITIONS.items()]
    heads = {text: term.meaning for term in terms() for text in term.spellings}
    return Page(
        "numbers",
        "How the numbers are defined",
        "A name has the same meaning in this report and in the JSON that this file holds. `trio-profile glossary` "
        "explains more words. If no answers are known, this page does not say whether they stay right: a pruned model "
        "that is faster may still be wrong.",
        [Terms("", items, heads=heads, detail=True)],
        folded="Show what the words mean",
    )


def environment_terms(where: Environment) -> list[tuple[str, str]]:
    """The machine, the device and the software that are kept with every number."""
    items = [
        ("device", where.device_name if where.cpu_threads else "unknown without the extra run"),
        ("device memory", units.size(where.device_memory_bytes) if where.device_memory_bytes else None),
        ("CUDA, driver", ", ".join(part for part in (where.cuda, where.driver) if part)),
        ("attention kernels", where.sdpa),
        ("processor", f"{where.cpu}, {where.cpu_threads} threads" if where.cpu_threads else where.cpu),
        ("waiting threads", WAIT_POLICIES.get(where.wait_policy, where.wait_policy)),
        ("freed memory", ALLOCATORS.get(where.allocator, where.allocator)),
        ("memory", units.size(where.memory_bytes) if where.memory_bytes else None),
        ("system", where.system),
        *((name, getattr(where, name)) for name in ("python", "torch", "transformers", "fvcore")),
        ("host", where.hostname),
        ("commit", where.commit),
    ]
    return [(term, text) for term, text in items if text]
