from tests.profile.kinds.layers.kept import layers_document
from trio_profile.kinds.layers.document import layer_rows


def test_each_layer_has_a_row():
    rows = layer_rows(layers_document())
    assert len(rows) == 4 and "forward_ms_high" in rows[0]
