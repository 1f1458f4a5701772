"""The old place of these names. Import them from the module beside each."""

from trio_core._moved import moved

__getattr__ = moved(
    __name__,
    {
        "View": "trio_core",
        "Selection": "trio_core",
        "Signal": "trio_core",
        "Picture": "trio_core",
        "Embeddings": "trio_core.methods.view",
        "Probe": "trio_core.methods.view",
        "Rows": "trio_core.methods.view",
        "last_rows": "trio_core.methods.view",
        "Encoder": "trio_core.models.encoder",
    },
)
