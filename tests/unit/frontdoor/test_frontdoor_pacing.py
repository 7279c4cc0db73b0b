"""Requests over a client's share are held back until others are answered; no byte is lost, nothing waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from actors.frontdoor.serving.pacing import ClientShare, RequestGate
from protocols.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    RST_STREAM,
    WINDOW_UPDATE,
    pack,
)

LIMIT = 3


def request(stream: int, size: int = 5) -> bytes:
    return pack(HEADERS, END_HEADERS, stream, b"head") + pack(DATA, END_STREAM, stream, bytes(size))


def answer(stream: int) -> bytes:
    data = pack(DATA, 0, stream, b"data")
    return pack(HEADERS, END_HEADERS, stream, b"ok") + data + pack(HEADERS, END_HEADERS | END_STREAM, stream)


class Connection:
    """A connection to a server that notes what reaches it."""

    def __init__(self, share: ClientShare) -> None:
        self.arrived = b""
        self.opened = 0
        self.gate = RequestGate(share, self._arrive, self._open)

    def _arrive(self, data: bytes) -> None:
        self.arrived += data

    def _open(self) -> None:
        self.opened += 1


def test_request_over_the_share_waits_for_an_answer() -> None:
    share = ClientShare(LIMIT)
    one = Connection(share)
    sent = [request(stream) for stream in range(1, 11, 2)]
    one.gate.take(b"".join(sent))
    assert one.arrived == b"".join(sent[:LIMIT])
    assert one.gate.holds
    one.gate.answer(answer(3))
    assert one.arrived == b"".join(sent[: LIMIT + 1])
    one.gate.answer(answer(1))
    assert (one.arrived, one.gate.holds, one.opened) == (b"".join(sent), False, 1)


def test_other_connections_of_a_client_have_one_request_each_beside_its_share() -> None:
    share = ClientShare(LIMIT)
    flood, other = Connection(share), Connection(share)
    flood.gate.take(b"".join(request(stream) for stream in range(1, 21, 2)))
    other.gate.take(request(1) + request(3))
    assert other.arrived == request(1)
    flood.gate.close()
    assert other.arrived == request(1) + request(3)
    assert share.unanswered == 2
    other.gate.close()
    assert (share.unanswered, share.held) == (0, {})


def test_requests_that_are_not_complete_and_those_given_up_are_not_counted() -> None:
    share = ClientShare(LIMIT)
    one = Connection(share)
    begun = b"".join(pack(HEADERS, END_HEADERS, stream, b"head") for stream in range(1, 41, 2))
    one.gate.take(begun + pack(PING, 0, 0, bytes(8)))
    assert (share.unanswered, one.gate.holds) == (0, False)
    for stream in range(41, 81, 2):
        one.gate.take(request(stream) + pack(RST_STREAM, 0, stream, bytes(4)))
    assert (share.unanswered, one.gate.holds) == (0, False)
    one.gate.take(pack(HEADERS, END_STREAM, 81, b"he") + pack(CONTINUATION, END_HEADERS, 81, b"ad"))
    assert share.unanswered == 1


FRAMES = st.lists(
    st.one_of(
        st.integers(0, 300).map(lambda size: ("request", size)),
        st.just(("window", 0)),
        st.just(("begun", 0)),
    ),
    max_size=30,
)


@given(FRAMES, st.data())
def test_all_bytes_arrive_in_order_and_never_too_many_requests(
    frames: list[tuple[str, int]], data: st.DataObject
) -> None:
    sent, stream, complete = b"", 1, []
    for kind, size in frames:
        if kind == "request":
            sent += request(stream, size)
            complete.append(len(sent))
        else:
            sent += pack(WINDOW_UPDATE, 0, 0, bytes(4)) if kind == "window" else pack(HEADERS, END_HEADERS, stream)
        stream += 2
    share = ClientShare(LIMIT)
    one, left, answered = Connection(share), sent, 0
    streams = [2 * at + 1 for at, (kind, _) in enumerate(frames) if kind == "request"]
    while left or one.gate.holds:
        reached = sum(end <= len(one.arrived) for end in complete)
        assert reached - answered <= LIMIT
        if left and not one.gate.holds:
            piece = data.draw(st.integers(1, len(left)))
            one.gate.take(left[:piece])
            left = left[piece:]
        else:
            assert answered < reached, "what is held back waits for something that comes"
            reply = answer(streams[answered])
            cut = data.draw(st.integers(0, len(reply)))
            one.gate.answer(reply[:cut])
            one.gate.answer(reply[cut:])
            answered += 1
        assert sent.startswith(one.arrived)
    assert one.arrived == sent
