"""How close the next token's distribution is to that of the dense model."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity

DIVERGENCE = ("mean KL, nats", "95th percentile", "median KL")
"""The columns of how far the next token lies from dense. Old studies have the median alone."""

KL_NATS_MEAN = Quantity(
    name="kl_nats_mean", columns=(Column("mean KL, nats", lambda cell, _: entries.nats(cell.kl_nats_mean)),)
)
KL_NATS_P95 = Quantity(
    name="kl_nats_p95", columns=(Column("95th percentile", lambda cell, _: entries.nats(cell.kl_nats_p95)),)
)
KL_NATS = Quantity(name="kl_nats", columns=(Column("median KL", lambda cell, _: entries.nats(cell.kl_nats)),))
TOP1_AGREEMENT = Quantity(
    name="top1_agreement",
    columns=(Column("changed tokens", lambda cell, _: entries.changed(cell.top1_agreement)),),
)
