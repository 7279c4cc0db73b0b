"""Headers as bytes: the examples of RFC 7541, what our encoder makes is what a decoder reads, and no bytes do harm."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http2.frames import BadHttp2
from protocols.http2.hpack import KNOWN_BLOCK, Decoder, Encoder
from protocols.http2.huffman import _CODES, KNOWN_TEXT, decode

REQUESTS = (
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", {b":path": b"/", b":authority": b"www.example.com"}),
    ("828684be5886a8eb10649cbf", {b":authority": b"www.example.com", b"cache-control": b"no-cache"}),
    ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", {b":scheme": b"https", b"custom-key": b"custom-value"}),
)
"""Appendix C.4: three requests on one connection, with Huffman code."""
HEADERS = st.lists(
    st.tuples(st.sampled_from([b":path", b"te", b"x"]), st.sampled_from([b"", b"a", b"trailers", b"y" * 3000])),
    max_size=8,
)


def packed(text: bytes) -> bytes:
    """By the Huffman code."""
    codes = {symbol: f"{code:0{length}b}" for (length, code), symbol in _CODES.items()}
    bits = "".join(codes[symbol] for symbol in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8)


def test_ones_without_end_are_refused_at_once() -> None:
    """A header of 64 KiB of them held the process for half a minute."""
    began = time.process_time()
    with pytest.raises(BadHttp2):
        decode(b"\xff" * 32_000)
    assert time.process_time() - began < 1.0


def test_the_examples_of_the_standard() -> None:
    decoder = Decoder()
    for block, wanted in REQUESTS:
        headers = dict(decoder.decode(bytes.fromhex(block)))
        assert headers | wanted == headers
        assert headers[b":method"] == b"GET"


@given(st.binary(max_size=40))
def test_any_text_comes_out_of_its_code(text: bytes) -> None:
    assert decode(packed(text)) == text


@given(st.lists(HEADERS, max_size=6), st.booleans())
def test_what_is_encoded_is_decoded_on_one_connection(blocks: list[list[tuple[bytes, bytes]]], forgets: bool) -> None:
    encoder, decoder = Encoder(), Decoder()
    for headers in blocks:
        assert decoder.decode(encoder.encode(tuple(headers))) == headers
    if forgets:
        encoder.forget()
        for headers in blocks:
            assert decoder.decode(encoder.encode(tuple(headers))) == headers


def test_a_header_sent_before_is_one_byte() -> None:
    encoder = Encoder()
    header = (b":path", b"/etcdserverpb.KV/Txn")
    assert len(encoder.encode((header,))) > 20
    assert len(encoder.encode((header,))) == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_headers_or_refused(block: bytes) -> None:
    try:
        Decoder().decode(block)
    except BadHttp2:
        return


@pytest.mark.parametrize("block", ["be", "80", "ffffffffff7f", "41", "4185", "400161", "3fe21f", "41820000"])
def test_bad_blocks(block: str) -> None:
    with pytest.raises(BadHttp2):
        Decoder().decode(bytes.fromhex(block))


def test_a_remembered_block_is_as_good_as_a_new_one() -> None:
    """Also when the table changes between two of the same: its places have moved."""
    encoder, decoder = Encoder(), Decoder()
    first, second = ((b":method", b"POST"), (b"a", b"1")), ((b"b", b"2"), (b"a", b"1"))
    for headers in (first, first, first, second, first, second, second, first):
        assert decoder.decode(encoder.encode(headers)) == list(headers)


def test_only_short_blocks_and_texts_are_remembered() -> None:
    decoder, short, long = Decoder(), b"\x82" * KNOWN_BLOCK, b"\x82" * (KNOWN_BLOCK + 1)
    assert decoder.decode(short) is decoder.decode(short)
    assert decoder.decode(long) is not decoder.decode(long)
    short, long = b"\0" * (KNOWN_TEXT - 1), b"\0" * (KNOWN_TEXT + 4)
    assert decode(short) is decode(short)
    assert decode(long) is not decode(long)


def test_a_remembered_block_is_read_anew_after_the_table_changed() -> None:
    decoder = Decoder()
    indexed = b"\xbe"  # the newest of the table
    assert decoder.decode(b"\x40\x01a\x011") == [(b"a", b"1")]
    assert decoder.decode(indexed) == decoder.decode(indexed) == [(b"a", b"1")]
    assert decoder.decode(b"\x40\x01b\x012") == [(b"b", b"2")]
    assert decoder.decode(indexed) == [(b"b", b"2")]
    decoder.decode(b"\x20")  # nothing is remembered any more
    with pytest.raises(BadHttp2):
        decoder.decode(indexed)
