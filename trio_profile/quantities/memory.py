"""The memory of one prefill: its peak, that without a KV cache, and what the allocator took from the GPU."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Quantity, exactly

PEAK_MEMORY_BYTES = Quantity(
    name="peak_memory_bytes",
    summarise=lambda record: record.peak_memory_bytes,
    columns=(exactly("peak", "peak_memory_bytes", entries.num_bytes),),
)
WORKING_MEMORY_BYTES = Quantity(name="working_memory_bytes", summarise=lambda record: record.working_memory_bytes)
PEAK_RESERVED_BYTES = Quantity(name="peak_reserved_bytes", summarise=lambda record: record.peak_reserved_bytes)
