"""Photographs of Debian's package `labelme-examples`, with polygons around their objects. Tests skip without them."""

import json
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

EXAMPLES = Path("/usr/share/doc/labelme-examples/examples")
PHOTOGRAPHS = EXAMPLES / "instance_segmentation" / "data_annotated"
FRAMES = EXAMPLES / "video_annotation" / "data_annotated"
"""Five consecutive frames of a video."""

needs_labels = pytest.mark.skipif(
    not PHOTOGRAPHS.is_dir(), reason="no photographs with polygons: apt-get install labelme-examples"
)


def region(photograph: Path, label: str) -> Image.Image:
    """The polygons with a label, white on black, as large as the photograph."""
    with Image.open(photograph) as picture:
        found = Image.new("L", picture.size)
    for shape in json.loads(photograph.with_suffix(".json").read_text(encoding="utf-8"))["shapes"]:
        if shape["label"] == label:
            ImageDraw.Draw(found).polygon([tuple(point) for point in shape["points"]], fill=255)
    return found
