"""Models that are split over processes: tensor parallel, FSDP, pipeline parallel."""

from torch import nn

from trio_core.errors import UnsupportedModel

_SPLITTING = ("torch.distributed.", "transformers.distributed.")
"""Where the classes of weights and modules come from that hold a part of a model, such as DTensor."""


def check_whole(model: nn.Module) -> None:
    """Raise UnsupportedModel for a model of which this process holds a part only.

    There a module yields a part of its output, or has no weights between two forwards. So a method that calls the
    modules of a layer would score by a part, and each process would keep other tokens.
    """
    for module in model.modules():
        for holder in (module, *module._parameters.values()):
            if f"{type(holder).__module__}.".startswith(_SPLITTING):
                raise UnsupportedModel(
                    f"{type(model).__name__} is split over processes ({type(holder).__name__}: tensor parallel, FSDP "
                    "or pipeline parallel), and a part of a model cannot be pruned: load the whole model in each "
                    "process"
                )
