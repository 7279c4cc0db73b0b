"""Exec, attach and port-forward with a client library: `streaming_session.py LIBRARY KUBECONFIG`; "done" at the end.

Pods of the namespace default: `plain` runs, `cat` copies its input.
"""

import asyncio
import contextlib
import errno
import os
import socket
import socketserver
import sys
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

LOCAL_PORTS = 5


@contextlib.contextmanager
def echoing() -> Iterator[int]:
    """A port that sends back what it gets, in capitals."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(65536):
                self.request.sendall(data.upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def kubernetes_session(kubeconfig: str) -> None:
    from kubernetes import client, config
    from kubernetes.stream import portforward, stream

    core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
    execute, attach = core.connect_get_namespaced_pod_exec, core.connect_get_namespaced_pod_attach
    command = ["sh", "-c", "echo out; echo bad >&2"]
    found = stream(execute, "plain", "default", command=command, stdout=True, stderr=True)
    assert sorted(found.splitlines()) == ["bad", "out"], found

    streams = {"stdin": True, "stdout": True, "stderr": True, "_preload_content": False}
    session = stream(execute, "plain", "default", command=["sh"], **streams)
    session.write_stdin("echo gruß\n")
    assert session.readline_stdout(timeout=30) == "gruß"
    session.write_stdin(b"exit 7\n")
    session.run_forever(timeout=30)
    assert session.returncode == 7, session.returncode

    session = stream(attach, "cat", "default", **streams)
    session.write_stdin("hello\n")
    assert session.readline_stdout(timeout=30) == "hello"
    session.close()

    forward = core.connect_get_namespaced_pod_portforward
    with echoing() as first, echoing() as second:
        forwarded = portforward(forward, "plain", "default", ports=f"{first},{second}")
        for port in (first, second):
            exchange(forwarded.socket(port), os.urandom(100_000).hex().encode())
        forwarded.close()
    forwarded = portforward(forward, "plain", "default", ports="1")
    end = time.monotonic() + 30
    while not forwarded.error(1):
        assert time.monotonic() < end, "no error of a closed port"
        time.sleep(0.05)
    assert "Connection refused" in forwarded.error(1), forwarded.error(1)


def exchange(connection: socket.socket, data: bytes) -> None:
    sending = Thread(target=connection.sendall, args=(data,))
    sending.start()
    received = b""
    connection.settimeout(30)
    while len(received) < len(data):
        received += connection.recv(65536)
    sending.join()
    assert received == data.upper()


def kr8s_session(kubeconfig: str) -> None:
    asyncio.run(asyncio.wait_for(_kr8s(kubeconfig), 60))


async def _kr8s(kubeconfig: str) -> None:
    import kr8s.asyncio

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    plain = await kr8s.asyncio.objects.Pod.get("plain", namespace="default", api=api)
    done = await plain.exec(["sh", "-c", "echo out"])
    assert (done.returncode, done.stdout) == (0, b"out\n"), done
    with echoing() as port:
        for left in reversed(range(LOCAL_PORTS)):
            try:
                await _forward(plain, port)
                break
            except OSError as error:  # the library looks for a free port, which somebody may take before it listens
                if error.errno != errno.EADDRINUSE or not left:
                    raise


async def _forward(plain: Any, port: int) -> None:
    async with plain.portforward(port, local_port="auto") as local:
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        writer.close()


if __name__ == "__main__":
    {"kubernetes": kubernetes_session, "kr8s": kr8s_session}[sys.argv[1]](sys.argv[2])
    print("done")
