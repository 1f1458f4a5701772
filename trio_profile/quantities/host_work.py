"""The work of the host in one prefill: the operators that it issues, and how often it waits for a value."""

from trio_profile.quantities.quantity import Quantity

LAUNCHES = Quantity(name="launches", gated="launches", summarise=lambda record: record.launches)
HOST_WAITS = Quantity(name="host_waits", gated="host_waits", summarise=lambda record: record.host_waits)
