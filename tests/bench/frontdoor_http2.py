"""Just enough HTTP/2 to open one gRPC call and to see its frames go by."""

import struct

DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS = 1, 4
HEAD = 9


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def literal(name: str, value: str) -> bytes:
    """A header field without indexing and without Huffman."""
    return b"\0" + b"".join(bytes((len(text),)) + text.encode() for text in (name, value))


def watch_request(path: str) -> bytes:
    """A call with an empty message."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    block = b"".join(literal(name, value) for name, value in fields.items())
    return frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, bytes(5))


HELLO = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(SETTINGS, 0, 0, b"")
    + frame(SETTINGS, 1, 0, b"")
    + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24))
)
MORE = frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1 << 12))
"""The client takes more of its call."""


def frames(data: bytes) -> tuple[list[int], bytes]:
    """Kinds of all whole frames, and what is left."""
    kinds, at = [], 0
    while len(data) - at >= HEAD:
        size = int.from_bytes(data[at : at + 3], "big")
        if len(data) - at < HEAD + size:
            break
        if data[at + 3] != DATA or size:
            kinds.append(data[at + 3])
        at += HEAD + size
    return kinds, data[at:]
