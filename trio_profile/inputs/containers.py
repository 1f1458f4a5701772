"""Whether a video file was cut off: a copy, a download or a recording that ended early.

A decoder gives the frames that are there and says nothing. But each container says in its own way how it goes on. The
readers here skip from part to part, and read none of the frames. Each returns the place where the last part that begins
in the file should end, or None if it does not know the file. The place lies beyond the end of a file that was cut off.

Sources: ISO/IEC 14496-12 (MP4, MOV), RFC 8794 (EBML: Matroska, WebM), Microsoft's RIFF (AVI), GIF89a, ISO/IEC 13818-1
(MPEG).
"""

import os
from typing import BinaryIO

_ENDLESS = 2**63
"""The end of a file that has not even all its parts."""


def is_cut_off(file: BinaryIO) -> bool:
    """Whether a video ends before its container does. False for a container that is not known. The file is rewound."""
    size = file.seek(0, os.SEEK_END)
    try:
        ends = (reader(file, size) for reader in _READERS)
        return next((end > size for end in ends if end is not None), False)
    finally:
        file.seek(0)


def _read(file: BinaryIO, place: int, count: int) -> bytes:
    file.seek(place)
    return file.read(count)


def _of_mp4(file: BinaryIO, size: int) -> int | None:
    """MP4 and MOV are boxes: the size, and a name. `moov` has the index, and `moof` that of the `mdat` after it."""
    names, place = list[bytes](), 0
    while place < size:
        head = _read(file, place, 16)
        length, name = int.from_bytes(head[:4]), head[4:8]
        if not names and name not in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"styp"):
            return None
        names.append(name)
        if length == 1:
            length = int.from_bytes(head[8:16])
        if len(head) < 8:
            return _ENDLESS
        if length == 0:  # it is the last one
            place = size
        elif length < 8:
            break  # what follows is no box
        else:
            place += length
    return place if b"moov" in names and names[-1] != b"moof" else _ENDLESS


def _of_ebml(file: BinaryIO, size: int) -> int | None:
    """Matroska and WebM are elements: an id, a length, and the content. A length of a live stream may be unknown."""
    if _read(file, 0, 4) != b"\x1aE\xdf\xa3":
        return None
    place = 0
    while place < size:
        head = _read(file, place, 12)
        of_id = 9 - head[0].bit_length()
        of_length = 9 - head[of_id].bit_length() if of_id < len(head) else 1
        if of_id > 4 or of_length > 8:
            return size  # no element: nothing is known of the rest
        bits = int.from_bytes(head[of_id : of_id + of_length]) & (2 ** (7 * of_length) - 1)
        is_unknown = bits == 2 ** (7 * of_length) - 1
        place += of_id + of_length + (0 if is_unknown else bits)  # the content of an unknown one follows at once
    return place


def _of_avi(file: BinaryIO, _: int) -> int | None:
    """AVI has a chunk of 4 GB at most, or several: `RIFF`, the length, and the content. A live one has no length."""
    place = 0
    while _read(file, place, 4) == b"RIFF" and (length := int.from_bytes(_read(file, place + 4, 4), "little")):
        place += 8 + length
    return place or None


def _of_gif(file: BinaryIO, _: int) -> int | None:
    """A GIF is blocks, of which the last one is `;`. The data of a block are pieces of up to 255 bytes, then a 0."""
    head = _read(file, 0, 13)
    if head[:3] != b"GIF":
        return None
    place = 13 + _colours(head[10:11])
    while block := _read(file, place, 10):
        if block[:1] == b";":
            return place + 1
        if block[:1] not in (b"!", b","):
            return place  # no block: nothing is known of the rest
        place += 2 if block[:1] == b"!" else 11 + _colours(block[9:10])
        while piece := _read(file, place, 1):
            place += 1 + piece[0]
            if piece == b"\0":
                break
    return _ENDLESS


def _colours(flags: bytes) -> int:
    """The bytes of a table of colours, by the flags before it."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _of_mpeg(file: BinaryIO, size: int) -> int | None:
    """A program stream is packets, of which each has its length. It may end without a mark."""
    place = 0
    while place < size:
        head = _read(file, place, 14)
        if place and len(head) < 4:
            return _ENDLESS
        if head[:3] != b"\0\0\1":
            return place or None
        if head[3] == 0xB9:
            place += 4
        elif head[3] == 0xBA:
            place += 12 if head[4:5] < b"\x40" else 14 + (head[13] & 7 if len(head) == 14 else 0)
        else:
            place += 6 + int.from_bytes(head[4:6])
    return place


def _of_mpegts(file: BinaryIO, size: int) -> int | None:
    """A transport stream is packets of one length, which begin with `G`; in some files after a time of 4 bytes."""
    for length, before in ((188, 0), (192, 4), (204, 0)):
        signs = [_read(file, before + n * length, 1) for n in range(3)]
        if size >= length and signs[0] == b"G" and {*signs} <= {b"G", b""}:
            return -(-size // length) * length
    return None


_READERS = (_of_mp4, _of_ebml, _of_avi, _of_gif, _of_mpeg, _of_mpegts)
