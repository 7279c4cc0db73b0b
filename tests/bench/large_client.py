"""A client of long answers and large objects that keeps nothing of them, in a process of its own: its work is no wait
of others.

Driven by lines on stdin, each a Read or a Create as JSON; answers each with a line.
"""

import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BufferedReader
from pathlib import Path

import msgspec

LARGEST = 256 * 1024
PATIENCE_S = 120.0
LAST_CHUNK = b"\r\n0\r\n\r\n"
PATH = "/api/v1/namespaces/default/configmaps"


class Read(msgspec.Struct, tag="read"):
    """One GET on a connection of its own; its answer is the bytes that came, with head and frames."""

    path: str
    until: str = ""
    """Text with which enough has come, as of a watch; empty: the last chunk."""
    accept: str = "application/json"


class Create(msgspec.Struct, tag="create"):
    """So many config maps, each on the first free connection; its answer is the bytes sent in bodies."""

    count: int
    size: int
    connections: int


class Client:
    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port, self._tls = port, tls

    def read(self, wanted: Read) -> int:
        """Raises ConnectionError when the answer ends early."""
        head = f"GET {wanted.path} HTTP/1.1\r\nHost: localhost\r\nAccept: {wanted.accept}\r\n"
        end, size, tail = wanted.until.encode() or LAST_CHUNK, 0, b""
        buffer = bytearray(LARGEST)
        with self._connected() as connection:
            connection.sendall(f"{head}\r\n".encode())
            while end not in tail:
                count = connection.recv_into(buffer)
                if not count:
                    raise ConnectionResetError(f"{wanted.path} ended after {size} bytes: {tail!r}")
                size += count
                tail = tail[-len(end) :] + bytes(buffer[:count] if wanted.until else buffer[max(0, count - 64) : count])
        return size

    def create(self, wanted: Create) -> int:
        data = "x" * wanted.size
        shares = [range(first, wanted.count, wanted.connections) for first in range(wanted.connections)]
        with ThreadPoolExecutor(wanted.connections) as threads:
            return sum(threads.map(partial(self._create, data), shares))

    def _create(self, data: str, numbers: range) -> int:
        sent = 0
        with self._connected() as connection, connection.makefile("rb") as answers:
            for number in numbers:
                body = msgspec.json.encode({"metadata": {"name": f"large-{number:05}"}, "data": {"fill": data}})
                head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                sent += len(body)
                _skip(answers)
        return sent

    def _connected(self) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self._port), PATIENCE_S)
        return self._tls.wrap_socket(raw)


def _skip(answers: BufferedReader) -> None:
    """Read one answer, of known length or in chunks."""
    status, length = answers.readline(), 0
    assert status.startswith(b"HTTP/1.1 201"), status
    while (line := answers.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    answers.read(length)
    while not length and (size := int(answers.readline(), 16) + 2) > 2:
        answers.read(size)
    if not length:
        answers.readline()


def main() -> None:
    port, pki = int(sys.argv[1]), Path(sys.argv[2])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    client, decode = Client(port, tls), msgspec.json.Decoder(Read | Create).decode
    print(0, flush=True)
    for line in sys.stdin:
        wanted = decode(line)
        print(client.read(wanted) if isinstance(wanted, Read) else client.create(wanted), flush=True)


if __name__ == "__main__":
    main()
