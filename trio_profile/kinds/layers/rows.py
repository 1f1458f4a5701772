"""The rows of a study of layers, for spreadsheets and data frames: one row for each layer at each retention."""

from trio_profile.kinds.layers.document import LayersDocument, LayerTimes
from trio_profile.study.table_rows import Flat, filled, flat


def layer_rows(document: LayersDocument) -> list[Flat]:
    """Return the layers of a document: one row for each layer at each retention."""
    return filled(
        [
            {"method": cell.method, "retention": cell.retention.nominal, **flat(LayerTimes, layer)}
            for cell in document.cells
            for layer in cell.layers
        ]
    )
