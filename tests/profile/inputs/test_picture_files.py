"""Files of pictures in every form that Pillow writes: the model sees what its own processor makes of each."""

import io
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from tests.core.tiny import fast_first
from tests.profile.family_checkpoints import FILES, Saved
from trio_profile.errors import StudyError
from trio_profile.inputs.digest import of_questions
from trio_profile.inputs.processors import load_processor
from trio_profile.inputs.questions import FORMATS, is_transparent, on_white, open_picture
from trio_profile.inputs.workload import ask

WIDTH, HEIGHT = 20, 14
MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "I", "F")
DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
IN_TWO_WAYS = "Pillow reads an uncompressed TIFF that is turned by its EXIF data in two ways; save a PNG"
LEVELS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bits of a channel that each kind of PNG may have: grey, RGB, palette, grey with alpha, RGB with alpha."""


def noise(channels: int, kind: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(kind).max, (HEIGHT, WIDTH, channels), dtype=kind)


def in_mode(mode: str) -> Image.Image:
    """A picture of a mode. Where it has an alpha channel, all alphas occur."""
    if mode in DEEP:
        return Image.frombytes(mode, (WIDTH, HEIGHT), noise(1, np.uint16).tobytes())
    if mode == "LAB":
        return Image.frombytes(mode, (WIDTH, HEIGHT), noise(3).tobytes())
    whole = Image.fromarray(noise(4))
    way = {"La": "LA", "PA": "LA", "HSV": "RGB", "YCbCr": "RGB", "CMYK": "RGB", "P": "RGB"}.get(mode)
    return (whole if way is None else whole.convert(way)).convert(mode)


def png_rows(width: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (HEIGHT, width), dtype=np.uint8)


def png(kind: int, bits: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of noise. kind: of its pixels, as in LEVELS."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    palette = [(b"PLTE", noise(3).tobytes()[: 3 * 2**bits].ljust(3 * 2**bits, b"\7"))] if kind == 3 else []
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, kind, 0, 0, 0)),
        *palette,
        *chunks,
        (b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in png_rows(-(-WIDTH * channels * bits // 8))))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def saved_as(picture: Image.Image, form: str, **options: object) -> bytes | None:
    """A picture as a file. None if the format does not have its mode."""
    file = io.BytesIO()
    try:
        picture.save(file, form, **options)
    except (OSError, ValueError, KeyError):
        return None
    return file.getvalue()


def corpus() -> Iterator[tuple[str, bytes | None]]:
    for mode, form in product((*MODES, *DEEP), FORMATS):
        yield f"{mode}.{form}", saved_as(in_mode(mode), form)
    for kind, depths in LEVELS.items():
        for bits in depths:
            yield f"kind {kind}, {bits} bits.PNG", png(kind, bits)
    for bits in (1, 2, 4, 8):
        yield f"palette with alphas, {bits} bits.PNG", png(3, bits, (b"tRNS", bytes(range(0, 2**bits, 1))))
    yield "grey with a transparent one.PNG", png(0, 8, (b"tRNS", struct.pack(">H", 7)))
    yield "a transparent colour.PNG", png(2, 8, (b"tRNS", struct.pack(">HHH", *png_rows(3 * WIDTH)[0, :3])))
    yield "a transparent colour of 16 bits.PNG", png(2, 16, (b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    yield "transparent index.GIF", saved_as(in_mode("P"), "GIF", transparency=3)
    modes = ("L", "P", "RGB", "RGBA", "CMYK")
    for form, mode, orientation in product(("JPEG", "PNG", "WEBP", "TIFF", "AVIF"), modes, range(1, 9)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"{mode}, orientation {orientation}.{form}", saved_as(in_mode(mode), form, exif=exif)
        if form == "TIFF":
            packed = saved_as(in_mode(mode), form, exif=exif, compression="tiff_lzw")
            yield f"{mode}, orientation {orientation}, compressed.{form}", packed
    for form, mode in product(("GIF", "PNG", "WEBP", "AVIF", "TIFF"), ("P", "RGB", "RGBA")):
        others = [ImageOps.mirror(in_mode(mode)), ImageOps.flip(in_mode(mode))]
        yield f"{mode}, moving.{form}", saved_as(in_mode(mode), form, save_all=True, append_images=others)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("corpus")
    written = [(folder / name.replace("/", "-"), data) for name, data in corpus() if data is not None]
    for path, data in written:
        path.write_bytes(data)
    return [path for path, _ in written]


def as_person_sees_it(path: Path) -> Image.Image:
    return ImageOps.exif_transpose(Image.open(path))


def compared(files: list[Path], processor: object, *, convert: bool = True) -> Counter[str]:
    """How many files give the model equal pixels, and how many are refused.

    convert: whether the processor converts a picture itself.
    """
    counts = Counter[str]()
    for path in files:
        try:
            ours = ask(processor, [open_picture(path)], "What is this?")
        except StudyError as error:
            assert "no picture that can be read: " in str(error) and "\n" not in str(error)
            counts[f"refused: {str(error).split(': ')[1]}"] += 1
            continue
        seen = as_person_sees_it(path)
        own = ask(processor, [seen if convert else on_white(seen)], "What is this?")
        assert ours.keys() == own.keys(), path.name
        assert all(torch.equal(ours[name], own[name]) for name in own), path.name
        counts["equal"] += 1
    return counts


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("name", fast_first(sorted(FILES), "LLaVA-1.5", "Qwen2.5-VL"))
def test_the_model_sees_what_its_processor_makes_of_the_file(saved: Saved, files: list[Path], name: str):
    processor = load_processor(str(saved(name)))
    counts = compared(files, processor)
    refused = {"one channel of more than 8 bits; save it with 8": 11, IN_TWO_WAYS: 16}
    assert counts == {"equal": len(files) - 27, **{f"refused: {why}": count for why, count in refused.items()}}


@pytest.mark.parametrize("converts", fast_first([False, None], None))
def test_a_processor_that_does_not_convert_gets_transparency_on_white(saved: Saved, files: list[Path], converts):
    """That of PaliGemma's published checkpoints does not say that it converts."""
    processor = load_processor(str(saved("PaliGemma")))
    processor.image_processor.do_convert_rgb = converts
    assert compared(files, processor, convert=False)["equal"] > 150


def test_ink_on_a_transparent_ground_is_seen_on_white(tmp_path: Path):
    """As drawing programs save it: alpha 0 and colour 0. Its orientation is kept."""
    ink = np.zeros((30, 20, 4), np.uint8)
    ink[:3, 5:, 3] = 255
    Image.fromarray(ink).save(tmp_path / "diagram.png")
    seen = np.asarray(open_picture(tmp_path / "diagram.png"))
    assert seen.shape == (30, 20, 3) and (seen[:3, 5:] == 0).all() and (seen[3:] == 255).all()


def test_a_transparent_picture_counts_where_it_looks_otherwise_without_its_alpha(files: list[Path], tmp_path: Path):
    opaque = Image.new("RGBA", (4, 4), "red")
    for name, alpha, colour in (("opaque", 255, "red"), ("clear", 0, "red"), ("white", 0, "white")):
        picture = Image.new("RGBA", (4, 4), colour)
        picture.putalpha(alpha)
        picture.save(tmp_path / f"{name}.png")
    assert [is_transparent(tmp_path / f"{name}.png") for name in ("opaque", "clear", "white", "none")] == [
        False,
        True,
        False,
        False,
    ]
    found = {path.name for path in files if is_transparent(path)}
    assert {"RGBA.PNG", "LA.TIFF", "palette with alphas, 4 bits.PNG", "a transparent colour.PNG"} <= found
    assert not found & {"RGB.PNG", "CMYK.JPEG", "LAB.TIFF", "kind 3, 8 bits.PNG", "RGBA.BMP"}
    for path in files:
        try:
            seen = open_picture(path)
        except StudyError:
            continue
        bare = as_person_sees_it(path).convert("RGB")
        assert (path.name in found) == (bare.tobytes() != seen.tobytes()), path.name
    opaque.save(tmp_path / "again.png")
    lines = [f'{{"image": "{name}.png", "question": "What?"}}' for name in ("clear", "clear", "opaque", "again")]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    assert of_questions(tmp_path / "q.jsonl")["questions/pictures"].transparent == 1
