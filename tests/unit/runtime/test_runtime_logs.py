"""Log lines: however the bytes are cut on their way, readers join P lines up to an F line and get the output back."""

from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.shim.streams import LogSplitter, stamp

NOW = b"2026-01-02T03:04:05.123456789Z"


def contents(lines: bytes, stream: bytes = b"stdout") -> list[tuple[bytes, bytes]]:
    found = []
    for line in lines.split(b"\n")[:-1]:
        now, name, tag, content = line.split(b" ", 3)
        assert (now, name) == (NOW, stream)
        found.append((tag, content))
    return found


@given(st.lists(st.text("ab\n", max_size=40).map(str.encode), max_size=20), st.integers(1, 9))
def test_any_cut_of_the_stream_reads_back(chunks: list[bytes], limit: int) -> None:
    splitter = LogSplitter("stdout", limit)
    log = b"".join(splitter.feed(chunk, NOW) for chunk in chunks) + splitter.end(NOW)
    parsed = contents(log)
    assert b"".join(content + (b"\n" if tag == b"F" else b"") for tag, content in parsed) == b"".join(chunks)
    assert all(len(content) <= limit for _, content in parsed)


def test_lines_are_cut_at_the_limit_and_a_last_one_without_newline_is_partial() -> None:
    splitter = LogSplitter("stderr", 4)
    assert contents(splitter.feed(b"abcd\nabcdef\n\nxy\r\nz", NOW), b"stderr") == [
        (b"F", b"abcd"),
        (b"P", b"abcd"),
        (b"F", b"ef"),
        (b"F", b""),
        (b"F", b"xy"),
    ]
    assert contents(splitter.end(NOW), b"stderr") == [(b"P", b"z")]
    assert splitter.end(NOW) == b""


def test_a_line_without_end_does_not_pile_up_in_memory() -> None:
    splitter = LogSplitter("stdout", 4)
    assert contents(splitter.feed(b"x" * 10, NOW)) == [(b"P", b"xxxx"), (b"P", b"xxxx")]
    assert contents(splitter.end(NOW)) == [(b"P", b"xx")]


def test_stamp_has_nine_digits() -> None:
    assert stamp(1_767_323_045_000_000_007) == b"2026-01-02T03:04:05.000000007Z"
