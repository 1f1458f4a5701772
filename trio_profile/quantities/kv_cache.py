"""The size of the key-value cache after a prefill, measured and by formula."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Quantity, exactly, over_dense

KV_BYTES = Quantity(
    name="kv_bytes",
    label="KV cache bytes",
    gated="kv_bytes",
    summarise=lambda record: record.kv_bytes,
    columns=(
        over_dense("KV", "kv_bytes", "bytes"),
        exactly("held", "kv_bytes", entries.num_bytes),
    ),
)
KV_BYTES_PREDICTED = Quantity(
    name="kv_bytes_predicted",
    summarise=lambda record: record.kv_bytes_predicted,
    columns=(exactly("predicted", "kv_bytes_predicted", entries.num_bytes),),
)
