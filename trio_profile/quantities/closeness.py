"""How close the next token's distribution is to that of the dense model."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity

KL_NATS_MEAN = Quantity(
    name="kl_nats_mean", columns=(Column("mean KL, nats", lambda cell, _: entries.nats(cell.kl_nats_mean)),)
)
TOP1_AGREEMENT = Quantity(
    name="top1_agreement",
    columns=(Column("changed tokens", lambda cell, _: entries.changed(cell.top1_agreement)),),
)
