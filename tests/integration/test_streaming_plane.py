"""kubectl to containers and back on a whole plane: logs, exec, attach, cp, port-forward; and who may not."""

import contextlib
import fcntl
import json
import os
import pty
import select
import socket
import socketserver
import ssl
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pytest

from protocols.kube.meta import Object
from tests.support.mistreat import hit
from tests.support.plane import BIN, Plane, until
from tests.support.runtime import running

SIZED = b"until stty size | grep -q '33 99'; do sleep 0.1; done; stty size; "
"""The size is told beside the keys, and may come after them."""
PROMPT = "ready> "
"""A shell's own prompt tells root from others."""
NAPS = [f"{seconds}.{os.getpid()}" for seconds in (4242, 4243)]
"""No other test, here or in a container that has booted, sleeps for so long."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with the pods that are logged and attached to."""
    with Plane() as running:
        running.apply(pod("plain", {"command": ["sh", "-c", "echo one; echo two; exec sleep 1000"]}))
        running.apply(pod("cat", {"command": ["cat"], "stdin": True, "stdinOnce": True}))
        running.apply(pod("shell", {"command": ["sh"], "stdin": True, "tty": True}))
        running.apply(pod("crash", {"command": ["sh", "-c", "echo run; exit 1"]}, restartPolicy="Always"))
        for name in ("plain", "cat", "shell"):
            running.pod_ready(name)
        until("the whole log", lambda: running.kubectl("logs", "plain") == "one\ntwo\n", every=0.2)
        yield running


def pod(name: str, container: Object, **more: Any) -> Object:
    env = [{"name": "ME", "value": name}, {"name": "PS1", "value": PROMPT}]
    containers = [{"name": "a", "image": "busybox:1", "env": env, **container}]
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": containers, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def kubectl(plane: Plane, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, stdout and stderr."""
    done = subprocess.run(
        [str(BIN / "kubectl"), *arguments], env=environment(plane), input=stdin, capture_output=True, timeout=90
    )
    return done.returncode, done.stdout, done.stderr.decode()


def environment(plane: Plane) -> dict[str, str]:
    return plane.environment | {"HOME": str(plane.root)}


def test_logs_as_kubectl_asks_for_them(plane: Plane) -> None:
    assert plane.kubectl("logs", "plain") == "one\ntwo\n"
    assert plane.kubectl("logs", "plain", "--tail=1") == "two\n"
    assert plane.kubectl("logs", "plain", "--limit-bytes=5") == "one\nt"
    stamped = plane.kubectl("logs", "plain", "--timestamps", "--tail=1").split()
    assert stamped[0].endswith("Z")
    assert stamped[1] == "two"
    assert plane.kubectl("logs", "plain", "--since-time=2100-01-01T00:00:00Z") == ""
    crashed = until("a previous run", lambda: kubectl(plane, "logs", "crash", "--previous")[1], every=0.2)
    assert crashed == b"run\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["logs", "plain", "-c", "x"], "container x is not valid for pod plain"),
        (["logs", "plain", "--previous"], 'previous terminated container "a" in pod "plain" not found'),
        (["logs", "nobody"], 'pods "nobody" not found'),
        (["exec", "nobody", "--", "ls"], 'pods "nobody" not found'),
        (["exec", "plain", "--", "/no/such"], 'exec: "/no/such": no such file or directory'),
    ],
)
def test_refusals_say_why(plane: Plane, arguments: list[str], says: str) -> None:
    code, _, error = kubectl(plane, *arguments)
    assert code == 1
    assert says in error


def test_command_is_in_the_audit_log_from_its_begin_on(plane: Plane) -> None:
    """A line at the end alone is lost if the API server is killed while somebody is in a container."""

    def lines(at_least: int) -> list[Object]:
        text = (plane.root / "logs" / "audit.log").read_text()
        found = [json.loads(line) for line in text[: text.rindex("\n")].splitlines() if '"auditor"' in line]
        return found if len(found) >= at_least else []

    whose = ["--as=auditor", "--as-group=system:masters"]
    command = [str(BIN / "kubectl"), *whose, "exec", "-i", "plain", "--", "cat"]
    with subprocess.Popen(command, env=environment(plane), stdin=subprocess.PIPE) as client:
        [begun] = until("the begin", lambda: lines(1), timeout=20.0, every=0.1)
        assert client.stdin is not None
        client.stdin.close()
    _, ended = until("the end", lambda: lines(2), timeout=20.0, every=0.1)
    assert begun["auditID"] == ended["auditID"]
    assert (begun["stage"], begun["objectRef"]["subresource"]) == ("RequestReceived", "exec")
    assert (ended["stage"], ended["responseStatus"]) == ("ResponseComplete", {"code": 101})


def test_following_until_the_end(plane: Plane) -> None:
    plane.apply(pod("short", {"command": ["sh", "-c", "echo begin; sleep 1; echo end"]}))
    until("its log", lambda: kubectl(plane, "logs", "short")[1], every=0.1)
    assert plane.kubectl("logs", "-f", "short") == "begin\nend\n"


def test_a_follower_breaks_off_with_podworker_and_comes_back(plane: Plane) -> None:
    """A log that breaks off does not look complete; the node is reached again under the same port."""
    command = [str(BIN / "kubectl"), "logs", "-f", "plain"]
    follower = subprocess.Popen(command, env=environment(plane), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert follower.stdout is not None
        assert follower.stdout.read(8) == b"one\ntwo\n"
        hit(plane, "podworker")
        _, error = follower.communicate(timeout=60)
        assert follower.returncode == 1
        assert b"unexpected EOF" in error
    finally:
        follower.kill()
    assert plane.kubectl("logs", "plain") == "one\ntwo\n", "asked while podworker starts: kubectl comes back by itself"


def test_exec_gives_output_and_exit_code(plane: Plane) -> None:
    code, out, error = kubectl(plane, "exec", "plain", "--", "sh", "-c", "echo $ME; pwd; echo bad >&2; exit 7")
    assert (code, out) == (7, b"plain\n/\n")
    assert error == "bad\ncommand terminated with exit code 7\n"


def test_exec_passes_input_to_its_end(plane: Plane) -> None:
    data = os.urandom(3_000_000)
    code, out, _ = kubectl(plane, "exec", "-i", "plain", "--", "cat", stdin=data)
    assert code == 0
    assert out == data


def test_a_command_ends_with_its_client(plane: Plane) -> None:
    client = subprocess.Popen(
        [str(BIN / "kubectl"), "exec", "plain", "--", "sh", "-c", f"sleep {NAPS[0]} & exec sleep {NAPS[1]}"],
        env=environment(plane),
    )
    until("the command", lambda: all(running("sleep", nap) for nap in NAPS))
    client.kill()
    client.wait()
    until("its end", lambda: not any(running("sleep", nap) for nap in NAPS))


def test_a_terminal_has_a_size_and_takes_keys(plane: Plane) -> None:
    code, out = typed(plane, ["exec", "-it", "plain", "--", "sh"], [(PROMPT.encode(), SIZED + b"tty; exit 5\r")])
    assert code == 5
    assert b"33 99\r\n/dev/pts/" in out


def test_attach_to_a_pipe_and_to_a_terminal(plane: Plane) -> None:
    code, out, _ = kubectl(plane, "attach", "-i", "cat", stdin=b"hello\n")
    assert code == 0
    assert out in (b"hello\n", b"")  # a client that has gone before the answer came does not see it
    plane.pod_phase("cat", "Succeeded")
    assert plane.kubectl("logs", "cat") == "hello\n"
    keys = [(b"prompt", b"\r"), (PROMPT.encode(), b"echo $((40+2))\r"), (b"42\r\n", b"exit\r")]
    code, out = typed(plane, ["attach", "-it", "shell"], keys)
    assert code == 0
    assert b"42\r\n" in out


def test_a_terminal_that_floods_loses_nothing_and_a_runtime_that_dies_leaves_no_command(plane: Plane) -> None:
    keys = [(b"prompt", b"seq 1 50000\r"), (b"50000\r\n", b"exit\r")]
    plane.apply(pod("flood", {"command": ["sh"], "stdin": True, "tty": True}))
    plane.pod_ready("flood")
    code, out = typed(plane, ["attach", "-it", "flood"], keys)
    assert code == 0
    assert b"\r\n49999\r\n50000\r\n" in out
    command = [str(BIN / "kubectl"), "exec", "plain", "--", "sleep", NAPS[0]]
    with subprocess.Popen(command, env=environment(plane), stderr=subprocess.DEVNULL) as client:
        until("the command", lambda: running("sleep", NAPS[0]))
        hit(plane, "runtime")
        until("its end", lambda: not running("sleep", NAPS[0]))
        assert client.wait(60)
    until("exec again", lambda: kubectl(plane, "exec", "plain", "--", "true")[0] == 0, every=0.2)


def test_cp_there_and_back(plane: Plane) -> None:
    source = plane.root / "files"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data").write_bytes(os.urandom(200_000))
    plane.kubectl("cp", str(source), f"plain:{plane.root}/there")
    assert (plane.root / "there" / "sub" / "data").read_bytes() == (source / "sub" / "data").read_bytes()
    plane.kubectl("cp", f"plain:{plane.root}/there/sub/data", str(plane.root / "back"))
    assert (plane.root / "back").read_bytes() == (source / "sub" / "data").read_bytes()


def test_port_forward_carries_many_connections_and_says_what_fails(plane: Plane) -> None:
    """One after another and at once; a port nobody listens on is told, and kubectl gives up on it."""
    with served(os.urandom(2_000_000)) as (port, wanted), forwarded(plane, port) as local:
        assert fetch(local) == wanted
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(fetch, [local] * 4)) == {wanted}
    with forwarded(plane, 1, "inside the pod: Connection refused") as local:
        assert fetch(local) == b""


@contextlib.contextmanager
def served(data: bytes) -> Iterator[tuple[int, bytes]]:
    """A port that sends `data` to whoever says something, and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(10)
            self.request.sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield server.server_address[1], data
        finally:
            server.shutdown()


@contextlib.contextmanager
def forwarded(plane: Plane, port: int, says: str = "") -> Iterator[int]:
    command = [str(BIN / "kubectl"), "port-forward", "pod/plain", f":{port}", "--address", "127.0.0.1"]
    with subprocess.Popen(command, env=environment(plane), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            yield int(line.split(":")[1].split()[0])
            if says:
                assert says in process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()


def fetch(port: int) -> bytes:
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"go")
        with contextlib.suppress(ConnectionResetError):  # an end with our word unread
            while piece := connection.recv(65536):
                received += piece
    return received


def test_what_is_no_connection_is_refused(plane: Plane) -> None:
    url = plane.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}", "--raw")
    context = plane_context(plane, "admin")
    path = f"{url}/api/v1/namespaces/default/pods/plain/exec?command=ls&stdout=true"
    old = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v1.channel.k8s.io"}
    for headers, says in ((old, "v4.channel.k8s.io"), ({}, "websocket")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(path, b"", headers), context=context, timeout=60)
        assert caught.value.code == 400
        assert says in json.load(caught.value)["message"]


def test_clients_that_know_no_websockets(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl before 1.31, and every client library of that time: SPDY on the first hop."""
    for name in ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"):
        monkeypatch.setitem(plane.environment, name, "false")
    code, out, error = kubectl(plane, "exec", "plain", "--", "sh", "-c", "echo $ME; echo bad >&2; exit 7")
    assert (code, out, error) == (7, b"plain\n", "bad\ncommand terminated with exit code 7\n")
    data = os.urandom(3_000_000)
    code, out, _ = kubectl(plane, "exec", "-i", "plain", "--", "cat", stdin=data)
    assert (code, out) == (0, data)
    code, out = typed(plane, ["exec", "-it", "plain", "--", "sh"], [(PROMPT.encode(), SIZED + b"exit 5\r")])
    assert code == 5
    assert b"33 99\r\n" in out
    assert 'exec: "/no/such"' in kubectl(plane, "exec", "plain", "--", "/no/such")[2]
    assert 'pods "nobody" not found' in kubectl(plane, "exec", "nobody", "--", "ls")[2]
    with (
        served(os.urandom(2_000_000)) as (port, wanted),
        forwarded(plane, port) as local,
        ThreadPoolExecutor(4) as pool,
    ):
        assert set(pool.map(fetch, [local] * 4)) == {wanted}
    client = subprocess.Popen([str(BIN / "kubectl"), "exec", "plain", "--", "sleep", NAPS[0]], env=environment(plane))
    until("the command", lambda: running("sleep", NAPS[0]))
    client.kill()
    client.wait()
    until("its end", lambda: not running("sleep", NAPS[0]))


def test_node_endpoint_admits_api_server_and_who_may_use_nodes_proxy(plane: Plane) -> None:
    assert ask_node(plane, "") == 401
    for user in ("podworker", "scheduler"):
        assert ask_node(plane, user) == 403
    for user in ("apiserver-kubelet-client", "admin"):
        assert ask_node(plane, user) == 200
    assert ask_node(plane, "apiserver-kubelet-client", "/metrics/cadvisor") == 404
    assert ask_node(plane, "apiserver-kubelet-client", "/containerLogs/default/plain/a?tailLines=x") == 400


def ask_node(plane: Plane, user: str, path: str = "/containerLogs/default/plain/a") -> int:
    [node] = plane.list("node")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = plane_context(plane, user)
    context.check_hostname = False  # it is no name of localhost's
    try:
        with urllib.request.urlopen(f"https://localhost:{port}{path}", context=context, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def plane_context(plane: Plane, user: str) -> ssl.SSLContext:
    pki = plane.root / "pki"
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    if user:
        context.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")
    return context


def typed(plane: Plane, arguments: list[str], keys: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Exit code and screen of a kubectl on a terminal of 33 lines; `keys`: what to type once something was seen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    process = subprocess.Popen(
        [str(BIN / "kubectl"), *arguments],
        env=environment(plane),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen, deadline = b"", time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    screen += os.read(ours, 65536)
                except OSError:
                    break
            if keys and keys[0][0] in screen:
                os.write(ours, keys.pop(0)[1])
        return process.wait(30), screen
    finally:
        process.kill()
        os.close(ours)


def test_top_of_nodes_and_pods(plane: Plane) -> None:
    plane.apply(pod("busy", {"command": ["sh", "-c", "while :; do :; done"]}))
    plane.pod_ready("busy")

    def busy() -> bool:
        figures = kubectl(plane, "top", "pod", "busy", "--no-headers")[1].split()
        return len(figures) > 1 and figures[0] == b"busy" and int(figures[1].rstrip(b"m")) > 50

    def named() -> bool:
        return {"plain", "shell", "busy"} <= set(plane.kubectl("top", "pod", "--containers", "--no-headers").split())

    def shown() -> bool:
        rows = [line.split() for line in plane.nodeplane("top", "pods").splitlines() if " busy " in line]
        return bool(rows) and float(rows[0][3]) > 5

    until("figures of the new pod", busy, every=0.2)
    until("all of them", named, every=0.2)
    _, cores, share, memory, _ = plane.kubectl("top", "node", "--no-headers").split()
    assert (cores[-1], share[-1], memory[-2:]) == ("m", "%", "Mi")
    until("the same by our own command", shown, every=0.2)
    plane.delete("pod", "busy", wait=False)
    code, _, error = kubectl(plane, "top", "pod", "nobody")
    assert code == 1
    assert "not found" in error
