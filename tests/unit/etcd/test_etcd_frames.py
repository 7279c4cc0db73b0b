"""Frames of the store's second door: however the bytes are cut on their way, the frames arrive as they were sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.etcd.transport.frames import GREETING, METHODS, NUMBERS, BadFrame, Frame, Splitter, pack

FRAMES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)), max_size=8)
CUTS = st.lists(st.integers(1, 30), max_size=40)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]


@given(FRAMES, CUTS, st.booleans())
def test_frames_survive_any_cut(frames: list[Frame], cuts: list[int], greeted: bool) -> None:
    splitter = Splitter(40, GREETING if greeted else b"")
    data = (GREETING if greeted else b"") + b"".join(pack(*frame) for frame in frames)
    assert [frame for piece in cut(data, cuts) for frame in splitter.feed(piece)] == frames


def test_what_is_too_large_or_not_greeted_is_refused() -> None:
    with pytest.raises(BadFrame, match="the limit is 10"):
        list(Splitter(10).feed(pack(1, 2, bytes(11))))
    with pytest.raises(BadFrame, match="greeting"):
        list(Splitter(10, GREETING).feed(b"GET / HTTP/1.1\r\n"))


@given(st.binary(max_size=100), CUTS)
def test_garbage_is_frames_or_refused(data: bytes, cuts: list[int]) -> None:
    splitter = Splitter(50)
    try:
        for piece in cut(data, cuts):
            list(splitter.feed(piece))
    except BadFrame:
        return


def test_vectors() -> None:
    """The numbers are the protocol: they never change."""
    assert pack(7, 4, b"abc") == bytes.fromhex("00000003 00000007 04 616263")
    assert (NUMBERS["KV/Range"], NUMBERS["KV/Txn"], NUMBERS["Watch/Watch"]) == (1, 4, 16)
    assert len(METHODS) == 17
