"""Images of a clone as the blocks that differ from the template's: exact to the byte, the order of rows included.

The whole image would be as exact and faster to read; it was left because each older copy that lagging replicas show is an image too, and
because a world of 20 MB has one of 20 MB. A difference by rows would be smaller still, and would lose the order in which a query
without ORDER BY gives them.
"""

import struct

from wardian.sandbox.database.sealed import packed, unpacked
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.fingerprint import digest

BLOCK = 4096
_HEAD = struct.Struct("!I")


def difference(image: bytes, base: bytes) -> bytes:
    """What makes `image` of `base`."""
    starts = [at for at in range(0, len(image), BLOCK) if image[at : at + BLOCK] != base[at : at + BLOCK]]
    head = packed({"size": len(image), "digest": digest(image), "starts": starts})
    return b"".join([_HEAD.pack(len(head)), head, *(image[at : at + BLOCK] for at in starts)])


def applied(body: bytes, base: bytes) -> bytes:
    """The image again.

    Raises:
        LeakDetected: it is not byte for byte what was sealed.
    """
    (length,) = _HEAD.unpack_from(body)
    head, at = unpacked(body[_HEAD.size : _HEAD.size + length]), _HEAD.size + length
    size = head["size"]
    image = bytearray(base[:size].ljust(size, b"\0"))
    for start in head["starts"]:
        block = body[at : at + min(BLOCK, size - start)]
        image[start : start + len(block)] = block
        at += len(block)
    made = bytes(image)
    if digest(made) != head["digest"]:
        raise LeakDetected("database", (f"image: expected {head['digest']}, found {digest(made)}",))
    return made
