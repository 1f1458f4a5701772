"""The tokens of a block as the page's script reads them."""

import json
from base64 import b64encode
from dataclasses import asdict
from typing import Any

import numpy as np

from trio_profile.report.blocks import DrawnStage, Tokens


def token_data(block: Tokens) -> str:
    """JSON with the picture, the grids and the stages of each map. Bytes are base64, kept tokens are one bit each."""
    maps = [
        {
            "method": drawn.method,
            "retention": drawn.retention,
            "where": drawn.where,
            "stages": [_stage(stage) for stage in drawn.stages],
        }
        for drawn in block.maps
    ]
    data = {
        "picture": block.picture,
        "frames": list(block.frames),
        "count": block.count,
        "methods": list(block.methods),
        "at": block.at,
        "grids": [asdict(grid) for grid in block.grids],
        "maps": maps,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _stage(stage: DrawnStage) -> dict[str, Any]:
    """One stage. Parts that it does not have are left out."""
    kept = np.packbits(np.frombuffer(stage.kept, dtype=np.uint8))
    into = np.asarray(stage.merged_into, dtype="<i4")
    parts: dict[str, Any] = {"layer": stage.layer, "text": stage.text, "kept": _base64(kept.tobytes())}
    if stage.scores:
        parts |= {"scores": _base64(stage.scores), "low": stage.low, "high": stage.high}
    if stage.merges:
        parts |= {"merges": True, "into": _base64(into.tobytes())}
    return parts


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
