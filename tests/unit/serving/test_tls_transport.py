"""An open TLS connection: back pressure, ends of every kind, and what TLS does by itself."""

import asyncio
import contextlib
import hashlib
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocols.serving import tls_transport
from protocols.serving.tls_transport import BURST, HIGH_WATER, RECORD, TlsTransport
from protocols.serving.turns import Turns
from tests.support import tls_wire
from tests.support.tls_wire import Client, Echo, Recorder, client_of, served
from tests.support.waiting import until_async

LARGE = os.urandom(1024 * 1024) * 10
KEY_UPDATE_REQUESTED, KEY_UPDATE_NOT_REQUESTED = 1, 0


class LateTurns(Turns):
    """Turns whose time is always over: each connection that is readable is read in the next one."""

    _going = False

    def over(self) -> bool:
        return not self._going

    def _go_on(self) -> None:
        self._going = True
        super()._go_on()
        self._going = False


@pytest.fixture(autouse=True, params=[Turns, LateTurns], ids=["in-time", "late"])
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_wire, "Turns", request.param)


async def until(holds: Callable[[], object]) -> None:
    await until_async("it", holds, every=0.005)


class Ticks:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.count = 0
        self._turn()

    def _turn(self) -> None:
        self.count += 1
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._handle.cancel()


async def test_large_bodies_arrive_and_leave_the_loop_to_others(pki: Path) -> None:
    """Ten megabytes up and down: no connection reads or writes more than a burst in one turn."""
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server, ticks = await place.last(), Ticks()
            per_turn: dict[int, int] = {}

            def received(data: bytes) -> None:
                server.data += data
                per_turn[ticks.count] = per_turn.get(ticks.count, 0) + 1

            server.data_received = received  # type: ignore[method-assign]
            await client.write(LARGE)
            await until(lambda: len(server.data) == len(LARGE))
            assert hashlib.sha256(server.data).digest() == hashlib.sha256(LARGE).digest()
            assert max(per_turn.values()) <= BURST
            server.transport.write(LARGE)
            assert server.transport.get_write_buffer_size() >= len(LARGE) - BURST * RECORD
            assert server.paused
            assert await client.read(len(LARGE)) == LARGE
            await until(lambda: not server.paused)
            assert server.transport.get_write_buffer_size() == 0
            ticks.stop()


async def test_slow_reader_pauses_the_protocol_within_its_limits(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server, sent = await place.last(), 0
            assert server.transport.get_write_buffer_limits() == (HIGH_WATER // 4, HIGH_WATER)
            while not server.paused:
                server.transport.write(LARGE[sent : sent + 5000])
                sent += 5000
            assert HIGH_WATER < server.transport.get_write_buffer_size() <= HIGH_WATER + 5000
            assert await client.read(sent - 100_000)
            await until(lambda: not server.paused)
            server.transport.set_write_buffer_limits(low=10)
            assert server.transport.get_write_buffer_limits() == (10, 40)


async def test_paused_reading_holds_the_client_back_and_loses_nothing(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server = await place.last()
            server.transport.pause_reading()
            assert not server.transport.is_reading()
            sending = asyncio.create_task(client.write(LARGE))
            await asyncio.sleep(0.1)
            assert not server.data
            assert not sending.done()
            server.transport.resume_reading()
            await sending
            await until(lambda: server.data == LARGE)


async def test_data_left_in_openssl_is_delivered_though_the_socket_is_silent(
    pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads smaller than a record leave the rest of it decrypted, and the socket has nothing more to report."""
    monkeypatch.setattr(tls_transport, "RECORD", 100)
    monkeypatch.setattr(tls_transport, "BURST", 2)
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server = await place.last()

            def received(data: bytes) -> None:
                server.data += data
                server.transport.pause_reading()
                asyncio.get_running_loop().call_later(0.001, server.transport.resume_reading)

            await client.write(LARGE[:3001])
            await until(lambda: len(server.data) == 3001)
            server.data_received = received  # type: ignore[method-assign]
            await client.write(LARGE[3001:6000])
            await until(lambda: server.data == LARGE[:6000])


async def test_watch_takes_the_connection_over_and_gives_it_back(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            first, second = await place.last(), Echo()
            second.transport = transport = first.transport
            transport.set_protocol(second)
            assert transport.get_protocol() is second
            await client.write(b"a")
            assert await client.read(1) == b"a"
            transport.set_protocol(first)
            await client.write(b"b")
            await until(lambda: first.data == b"b")
            transport.abort()
            assert await first.lost is None
            assert not second.lost.done()


async def test_error_of_a_protocol_ends_its_connection_and_is_reported(pki: Path) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server = await place.last()
            server.data_received = lambda data: 1 / 0  # type: ignore[assignment, method-assign]
            await client.write(b"x")
            assert isinstance(await server.lost, ZeroDivisionError)
        assert isinstance(reported[0]["exception"], ZeroDivisionError)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_close_sends_what_was_written_and_close_notify(pki: Path, version: ssl.TLSVersion) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki, version=version)).connect(place.port) as client:
            server = await place.last()
            server.transport.write(LARGE)
            server.transport.close()
            server.transport.write(b"too late")
            assert server.transport.is_closing()
            await client.write(b"x" * 100_000)  # an unread request: a plain close would reset the connection
            assert await client.read(2 * len(LARGE)) == LARGE
            assert not server.lost.done()
            client.socket.close()
            assert await server.lost is None
            assert not server.data


async def test_client_that_answers_no_close_is_aborted_in_time(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "CLOSE_S", 0.2)
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port), await Client(client_of(pki)).connect(place.port):
            await until(lambda: len(place.protocols) == 2)
            for server in place.protocols:
                server.transport.write(LARGE if server is place.protocols[0] else b"x")
                server.transport.close()
            assert [await server.lost for server in place.protocols] == [None, None]


@pytest.mark.parametrize("keep", [False, True], ids=["close", "half-open"])
async def test_client_that_writes_no_more_still_reads(pki: Path, keep: bool) -> None:
    """What was written before its close_notify arrives; with `eof_received` True also what is written later."""
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server = await place.last()

            def ended() -> bool:
                server.ended = True
                return keep

            server.eof_received = ended  # type: ignore[method-assign]
            server.transport.write(LARGE[: 9 * RECORD])
            await client.say_goodbye()
            await until(lambda: server.ended)
            if keep:
                server.transport.write(b"more")
                server.transport.close()
            expected = LARGE[: 9 * RECORD] + (b"more" if keep else b"")
            assert await client.read(10 * RECORD) == expected
            assert await server.lost is None


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "writing"])
async def test_reset_ends_the_connection(pki: Path, idle: bool) -> None:
    async with served(pki) as place:
        client = await Client(client_of(pki)).connect(place.port)
        server = await place.last()
        if not idle:
            server.transport.write(LARGE)
        await asyncio.sleep(0.01)
        client.reset()
        assert isinstance(await server.lost, OSError)
        server.transport.write(b"x")
        server.transport.close()
        assert server.transport.get_write_buffer_size() == 0
        assert server.transport.get_extra_info("peername") is None


async def test_reset_behind_input_ends_the_connection(pki: Path) -> None:
    """uvloop reports it once, together with the input."""
    async with served(pki) as place:
        client = await Client(client_of(pki)).connect(place.port)
        server = await place.last()
        for _ in range(3 * BURST):
            client.tls.write(b"x")
        assert client.socket.send(client.out.read())
        client.reset()
        assert isinstance(await server.lost, OSError)
        assert len(server.data) == 3 * BURST


@pytest.mark.parametrize("sent", [b"x" * 100, b"\x17\x03\x03\x00\x20" + b"x" * 32], ids=["noise", "forged"])
async def test_bytes_that_are_no_tls_end_the_connection(pki: Path, sent: bytes) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server = await place.last()
            await client.raw(sent)
            assert isinstance(await server.lost, ssl.SSLError)
            assert not server.data
            assert not server.ended


async def test_end_without_close_notify_is_an_end(pki: Path) -> None:
    """HTTP says by itself how long a message is."""
    async with served(pki) as place:
        client = await Client(client_of(pki)).connect(place.port)
        server = await place.last()
        client.socket.close()
        assert await server.lost is None
        assert server.ended


async def test_renegotiation_is_refused(pki: Path) -> None:
    async with served(pki, Echo) as place:
        with await Client(client_of(pki, version=ssl.TLSVersion.TLSv1_2)).connect(place.port) as client:
            assert client.control("SSL_renegotiate") == 1
            with pytest.raises(ssl.SSLError, match="NO_RENEGOTIATION"):
                await client.complete(client.tls.do_handshake)


@pytest.mark.parametrize("answered", [KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED], ids=["one way", "both ways"])
async def test_keys_are_updated(pki: Path, answered: int) -> None:
    async with served(pki, Echo) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            for _ in range(5):
                assert client.control("SSL_key_update", answered) == 1
                await client.write(b"hello")
                assert await client.read(5) == b"hello"


class Waiting:
    """A connection whose next calls wait for what they should not have to."""

    def __init__(self, tls: Any, recv: list[Exception] | None = None, send: list[Exception] | None = None) -> None:
        self._tls, self._recv, self._send = tls, recv or [], send or []
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)

    def recv(self, size: int) -> bytes:
        self.calls += 1
        if self._recv:
            raise self._recv.pop()
        found: bytes = self._tls.recv(size)
        return found

    def send(self, data: bytes) -> int:
        self.calls += 1
        if self._send:
            raise self._send.pop()
        sent: int = self._tls.send(data)
        return sent


@pytest.mark.parametrize("paused", [False, True])
async def test_write_that_waits_for_input_goes_on_with_it(pki: Path, paused: bool) -> None:
    """Half a key update from the client: OpenSSL writes once it has the rest. Until then the loop is not kept busy."""
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            old, server = (await place.last()).transport, Recorder()
            old.pause_reading()
            tls = Waiting(old.get_extra_info("ssl_object"), send=[ssl.SSLWantReadError()])
            transport = TlsTransport(tls, server, Turns())  # type: ignore[arg-type]
            if paused:
                transport.pause_reading()
            transport.write(b"hello")
            await asyncio.sleep(0.05)
            assert tls.calls == 1
            assert transport.get_write_buffer_size() == 5
            await client.write(b"x")
            assert await client.read(5) == b"hello"
            assert bytes(server.data) == (b"" if paused else b"x")
            transport.abort()
            await server.lost


async def test_read_that_waits_for_output_goes_on_with_it(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            old, server = (await place.last()).transport, Recorder()
            old.pause_reading()
            tls = Waiting(old.get_extra_info("ssl_object"), recv=[ssl.SSLWantWriteError()])
            transport = TlsTransport(tls, server, Turns())  # type: ignore[arg-type]
            await client.write(b"hello")
            await until(lambda: server.data == b"hello")
            transport.write(b"x")
            assert await client.read(1) == b"x"
            transport.abort()
            await server.lost


async def test_hundreds_of_connections_that_end_at_once_leave_nothing(pki: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with served(pki, Echo) as place:
        context = client_of(pki)
        clients = [await Client(context).connect(place.port) for _ in range(300)]
        await until(lambda: len(place.protocols) == len(clients))
        for number, (client, server) in enumerate(zip(clients, place.protocols, strict=True)):
            if number % 3 == 0:
                server.transport.abort()
            elif number % 3 == 1:
                client.reset()
            else:
                await client.say_goodbye()
        assert len(await asyncio.gather(*(server.lost for server in place.protocols))) == len(clients)
        for client in clients:
            with contextlib.suppress(OSError):
                client.socket.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_bytes_that_their_owner_changes_are_sent_as_they_were(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port) as client:
            server, changing = await place.last(), bytearray(LARGE)
            server.transport.write(memoryview(changing)[: len(LARGE)])
            server.transport.writelines([b"a", b"", b"b"])
            changing[:] = b"\x00" * len(LARGE)
            server.transport.write(b"")
            assert await client.read(len(LARGE) + 2) == LARGE + b"ab"
            assert not server.transport.can_write_eof()
