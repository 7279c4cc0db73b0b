"""Websocket protocols of clients: what a message is in each, and port-forward without SPDY."""

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from protocols.streams.accepting import (
    Accepted,
    Protocol,
    ProtocolUnknown,
    accept_forward,
    command_protocol,
    websocket_protocol,
)
from protocols.streams.channels import CLOSE, ERROR, STDERR, STDIN, STDOUT, V4, V5, exit_status, failure_status
from protocols.streams.port_channels import UNSENT, PortChannels, PortsInvalid, ports_of
from protocols.streams.spdy_frames import PING, SpdyFrame, pack, pack_data
from protocols.streams.spdy_peers import BytesToSend, Data, Opened, SpdyServer
from protocols.streams.websocket_channels import BASE64_CHANNEL, BASE64_V4, CHANNEL, CODECS, UNNAMED, received, sent


@pytest.mark.parametrize("protocol", [V5, V4, CHANNEL, UNNAMED])
def test_text_in_a_binary_protocol_is_its_utf8(protocol: str) -> None:
    assert received(CODECS[protocol], "\0é\n") == b"\0" + "é\n".encode()
    assert received(CODECS[protocol], b"\0\xff") == b"\0\xff"


@pytest.mark.parametrize("protocol", [BASE64_V4, BASE64_CHANNEL])
def test_base64_follows_the_digit_of_its_channel(protocol: str) -> None:
    assert received(CODECS[protocol], "0Zm9vCg==") == b"\0foo\n"
    assert sent(CODECS[protocol], b"\1foo\n") == "1Zm9vCg=="
    assert sent(CODECS[protocol], b"\1") == "1"


@given(st.sampled_from(sorted(CODECS)), st.sampled_from([STDIN, STDOUT, STDERR, 4]), st.binary(max_size=64))
def test_messages_come_back_whatever_the_protocol(protocol: str, channel: int, content: bytes) -> None:
    message = bytes([channel]) + content
    passed = sent(CODECS[protocol], message)
    assert passed is not None
    assert received(CODECS[protocol], passed) == message


@pytest.mark.parametrize("protocol", [V4, CHANNEL, UNNAMED])
def test_only_v5_ends_a_channel(protocol: str) -> None:
    assert received(CODECS[V5], bytes([CLOSE, STDIN])) == bytes([CLOSE, STDIN])
    assert received(CODECS[protocol], bytes([CLOSE, STDIN])) is None


@pytest.mark.parametrize("protocol", [BASE64_V4, BASE64_CHANNEL])
def test_base64_that_is_none_and_ends_of_channels_are_dropped(protocol: str) -> None:
    assert received(CODECS[protocol], "/AA==") is None
    assert received(CODECS[protocol], "0A") is None


@given(st.sampled_from(sorted(CODECS)), st.one_of(st.binary(max_size=64), st.text(max_size=64)))
def test_garbage_is_a_message_or_dropped(protocol: str, garbage: bytes | str) -> None:
    found = received(CODECS[protocol], garbage)
    assert found is None or found


def test_protocols_before_v4_have_only_the_text_of_a_failure() -> None:
    failure, success = bytes([ERROR]) + exit_status(7), bytes([ERROR]) + exit_status(0)
    assert sent(CODECS[V4], failure) == failure
    assert sent(CODECS[CHANNEL], success) is None
    text = b"command terminated with non-zero exit code: exit status 7"
    assert sent(CODECS[UNNAMED], failure) == bytes([ERROR]) + text
    for text_of_no_status in (b'{"status":"\xff"}', b'{"a":' + b"[" * 10_000):
        assert sent(CODECS[UNNAMED], bytes([ERROR]) + text_of_no_status) == bytes([ERROR]) + text_of_no_status
    assert sent(CODECS[BASE64_CHANNEL], failure) == "3" + base64.b64encode(text).decode()
    assert sent(CODECS[CHANNEL], bytes([ERROR]) + failure_status("gone")) == bytes([ERROR]) + b"gone"


@asynccontextmanager
async def client_of(ports: tuple[int, ...], protocol: str) -> "AsyncIterator[tuple[aiohttp.ClientSession, str]]":
    """Serve a port-forward whose far end repeats each port's data in capitals, then ends it."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        accepted = await accept_forward(request, Protocol(protocol), ports)
        await far_end(accepted)
        assert accepted.socket is not None
        await accepted.socket.close()
        return accepted.response

    async with TestServer(_application(handler)) as server, aiohttp.ClientSession() as session:
        yield session, str(server.make_url("/"))


def _application(handler: object) -> web.Application:
    application = web.Application()
    application.router.add_get("/", handler)  # type: ignore[arg-type]
    return application


async def far_end(accepted: Accepted) -> None:
    socket, spdy = accepted.socket, SpdyServer()
    assert socket is not None
    data, errors = dict[int, str](), dict[int, str]()
    async for message in socket:
        for event in spdy.feed(message.data):
            match event:
                case BytesToSend(answer):
                    await socket.send_bytes(answer)
                case Opened(stream, headers):
                    (data if headers["streamtype"] == "data" else errors)[stream] = headers["requestid"]
                case Data(stream, content):
                    error = next(number for number, request in errors.items() if request == data[stream])
                    if content == b"fail":
                        await socket.send_bytes(pack_data(error, b"no such port"))
                    else:
                        await socket.send_bytes(pack_data(stream, content.upper()))
                    await socket.send_bytes(pack_data(stream, b"", fin=True) + pack_data(error, b"", fin=True))


@pytest.mark.parametrize("protocol", [V4, UNNAMED])
async def test_ports_are_pairs_of_channels_that_begin_with_their_number(protocol: str) -> None:
    async with asyncio.timeout(30), client_of((80, 8080), protocol) as (session, url):
        offers = (protocol,) if protocol else ()
        async with session.ws_connect(url, protocols=offers) as socket:
            begun = [await socket.receive_bytes() for _ in range(4)]
            assert begun == [
                bytes([channel]) + struct.pack("<H", port) for channel, port in enumerate((80, 80, 8080, 8080))
            ]
            await socket.send_bytes(b"\2hello")
            assert await socket.receive_bytes() == b"\2HELLO"
            await socket.send_bytes(b"\0fail")
            assert await socket.receive_bytes() == b"\1no such port"
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1000


async def test_ports_in_base64_are_the_same() -> None:
    async with (
        asyncio.timeout(30),
        client_of((80,), BASE64_V4) as (session, url),
        session.ws_connect(url, protocols=(BASE64_V4,)) as socket,
    ):
        assert [await socket.receive_str() for _ in range(2)] == ["0UAA=", "1UAA="]
        await socket.send_str("0" + base64.b64encode(b"hello").decode())
        assert await socket.receive_str() == "0" + base64.b64encode(b"HELLO").decode()


def test_ports_are_several_parameters_or_one_with_commas() -> None:
    assert ports_of(["80", "81,82"]) == (80, 81, 82)
    for bad in ([], [""], ["0"], ["65536"], ["x"], ["1,"], ["9" * 5000], ["1"] * 100):
        with pytest.raises(PortsInvalid):
            ports_of(bad)


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (["v4.channel.k8s.io, v5.channel.k8s.io"], V5),
        (["base64.channel.k8s.io", "v4.channel.k8s.io"], BASE64_CHANNEL),
        (["x, channel.k8s.io"], CHANNEL),
        ([], UNNAMED),
    ],
)
def test_the_clients_favourite_is_chosen_and_v5_before_it(offers: list[str], chosen: str) -> None:
    assert websocket_protocol(_request(offers), (V5,), tuple(CODECS)) == chosen
    assert command_protocol(_request(offers)) == Protocol(chosen)


def test_offers_of_unknown_protocols_are_rejected_with_the_known_ones() -> None:
    with pytest.raises(ProtocolUnknown, match=r"v5\.channel\.k8s\.io"):
        command_protocol(_request(["v9.channel.k8s.io"]))


def _request(offers: list[str]) -> web.BaseRequest:
    from aiohttp.test_utils import make_mocked_request
    from multidict import CIMultiDict

    headers = CIMultiDict([("Upgrade", "websocket"), *(("Sec-WebSocket-Protocol", offer) for offer in offers)])
    return make_mocked_request("GET", "/", headers=headers)


async def test_far_end_that_pings_and_reads_no_answers_is_hung_up_on() -> None:
    channels = PortChannels(web.WebSocketResponse(), V4, (80,))
    ping = pack(SpdyFrame(PING, 0, 0, bytes(1 << 20)))
    for _ in range((UNSENT >> 20) - 1):
        await channels.send_bytes(ping)
    with pytest.raises(ConnectionResetError, match="reads no answers"):
        await channels.send_bytes(ping)
