from tests.profile import examples
from tests.profile.kinds.layers.kept import layers_document
from trio_profile.kinds.layers.document import conclude, layer_rows


def test_each_layer_has_a_row():
    rows = layer_rows(layers_document())
    assert len(rows) == 4 and "forward_ms_high" in rows[0]


def test_the_next_command_sweeps_the_retentions_that_were_measured():
    document = layers_document()
    command = "trio-profile layers --gpu h100_sxm --out a"
    found = conclude(document.model_copy(update={"sessions": (examples.session(command=command),)}))
    retentions = ",".join(f"{cell.retention.nominal:g}" for cell in document.cells)
    assert found.next == f"trio-profile sweep --retention {retentions} --out ANOTHER"
