"""The old place of these names. Import them from the module beside each."""

from trio_core._moved import moved

__getattr__ = moved(
    __name__,
    {
        "nms_select": "trio_core.rules.nms",
        "top_k": "trio_core.rules.selection",
        "stride": "trio_core.rules.selection",
        "cosine": "trio_core.rules.selection",
        "farthest_point": "trio_core.rules.selection",
        "dpp_map": "trio_core.rules.selection",
        "facility_location": "trio_core.rules.selection",
        "shares": "trio_core.rules.schedule",
        "crop_by_crop": "trio_core.methods.crops",
        "merge_by_crop": "trio_core.methods.crops",
        "CropRule": "trio_core.methods.crops",
    },
)
