"""A small control plane for tests: store, watchcache and apiserver processes under a short root of their own."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from protocols.bus import Bus, BusOptions
from protocols.cel.worker.messages import worker_of
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.settings import save_settings
from supervisor.base.groups import EVALUATING
from tests.support.actor_process import Process, start_actor
from tests.support.authority import HOSTS, Authority
from tests.support.connections import Connections, Responses
from tests.support.engine import ETCD, Etcd, chosen, etcd_binary
from tests.support.ports import free_port
from tests.support.settings import BRIEF_GO, plane_settings
from tests.support.waiting import saw, until

REPOSITORY = Path(__file__).resolve().parents[2]
USERS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controllers": ("system:kube-controller-manager", ""),
    "podworker": ("system:node:n1", "system:nodes"),
    "stranger": ("stranger", ""),
}
READY_SECONDS = 60.0
T = TypeVar("T")


class Plane:
    """Start with `start()`; processes are killed and the root removed by `close()`. `changes` are to its settings;
    `sharing` names a plane whose CA and keys this one uses, so that clients may move between them. `store` is the
    engine behind it, see tests/support/engine.py; its process is called `store` either way."""

    def __init__(self, sharing: "Plane | None" = None, store: str = "", **changes: Any) -> None:
        self._sharing = sharing
        binary = etcd_binary() if "store_endpoints" not in changes and chosen(store) == ETCD else ""
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.port = free_port()
        self._address = changes.get("bind_address", "127.0.0.1")
        self.url = f"https://{self._address}:{self.port}"
        self.processes: dict[str, Process] = {}
        self._etcd = Etcd(binary, self.root) if binary else None
        if self._etcd:
            changes = {"store_endpoints": (self._etcd.target,), "store_embedded": False, **changes}
        self.settings = plane_settings(self.root, **{"port": self.port, "api_url": self.url, **changes})

    def change(self, **changes: Any) -> None:
        """Settings, before the next process starts."""
        self.settings = msgspec.structs.replace(self.settings, **changes)
        if self.settings.layout.run.exists():
            save_settings(self.settings.layout.settings, self.settings)

    def start(self) -> None:
        self.prepare()
        for instance in ("store", "watchcache", "apiserver-0"):
            if instance != "store" or self._etcd or self.settings.runs_store:
                self.spawn(instance)
        self.wait_ready()
        if self._sharing is None:
            self.await_default_roles()

    def await_default_roles(self) -> None:
        """They are written once the server is ready; from then on it writes nothing by itself. Lists are counted, so
        the last of them, which follows them, is asked for by its name."""
        path = f"{self.url}/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        self.until("the default roles are there", lambda: self._is_there(path), READY_SECONDS)

    def _is_there(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=30, context=self.tls()) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            saw(f"{url}: {error}")
            error.close()
            return False

    def prepare(self) -> None:
        layout = self.settings.layout
        layout.run.mkdir(mode=0o700, parents=True)
        if self._sharing is None:
            self._issue()
        else:
            shutil.copytree(self._sharing.settings.layout.pki, layout.pki)
        save_settings(layout.settings, self.settings)
        (self.root / "kubeconfig").write_text(json.dumps(self._kubeconfig("admin")))

    def _issue(self) -> None:
        pki = self.settings.layout.pki
        self.authority = authority = Authority(pki)
        for file, (name, organization) in USERS.items():
            authority.issue(file, name, organization)
        authority.issue("apiserver", "apiserver", hosts=(*HOSTS, *self.settings.api_names))
        authority.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client")
        etcd = Authority(pki / "etcd", "test-etcd-ca")
        etcd.issue("server", "etcd")
        etcd.issue("../apiserver-etcd-client", "kube-apiserver-etcd-client")
        authority.issue("sa", "sa")  # only its key is used: it signs tokens

    def create_namespaces(self, *names: str) -> None:
        for name in names:
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
            request = urllib.request.Request(
                f"{self.url}/api/v1/namespaces", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=30, context=self.tls()) as answer:
                assert answer.status == 201

    def spawn(self, instance: str) -> None:
        """Start a process, with the worker for its expressions if it has some."""
        if instance.partition("-")[0] in EVALUATING and worker_of(instance) not in self.processes:
            self.spawn(worker_of(instance))
        path = self.root / f"{instance}.log"
        if instance != "store" or not self._etcd:
            self.processes[instance] = self._start_actor(instance, path)
            return
        with path.open("ab") as log:
            self.processes[instance] = subprocess.Popen(self._etcd.command, stdin=subprocess.DEVNULL, stderr=log)

    def _start_actor(self, instance: str, log: Path) -> Process:
        return start_actor(instance, self.settings.layout.settings, log)

    def kill(self, instance: str, number: int = signal.SIGKILL) -> int:
        process = self.processes.pop(instance)
        process.send_signal(number)
        return process.wait(30)

    def wait_ready(self) -> None:
        self.until("the plane is ready", self._readiness, READY_SECONDS, good=lambda answer: answer[0] == 200)

    def _readiness(self) -> tuple[int, str]:
        dead = {name: code for name, process in self.processes.items() if (code := process.poll()) is not None}
        assert not dead, f"ended: {dead}"
        return self.get_text("/readyz")

    def until(self, what: str, holds: Callable[[], T], timeout: float = 60.0, good: Callable[[T], object] = bool) -> T:
        """`until`, and the logs when it is in vain."""
        try:
            return until(what, holds, timeout, good=good)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def get_text(self, path: str) -> tuple[int, str]:
        """One anonymous GET, by hand."""
        with socket.create_connection((self._address, self.port), timeout=15) as raw:
            context = ssl.create_default_context(cafile=str(self.settings.layout.ca_cert))
            with context.wrap_socket(raw, server_hostname=self._address) as tls:
                tls.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = b"".join(iter(lambda: tls.recv(65536), b"")).decode()
        if not answer:
            raise ConnectionResetError("closed without an answer")
        return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]

    def logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in self.root.glob("*.log"))

    def tracebacks(self) -> str:
        """What the processes logged around their tracebacks: a 500 is a fault wherever it is."""
        found = []
        for log in sorted(self.root.glob("*.log")):
            written = log.read_text(errors="replace")
            if (place := written.find("Traceback")) >= 0:
                found.append(f"{log.name}: {written[max(0, place - 500) : place + 3000]}")
        return "\n".join(found)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)
        shutil.rmtree(self.root, ignore_errors=True)

    def tls(self, user: str = "admin") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.settings.layout.ca_cert))
        if user:
            context.load_cert_chain(*self.settings.layout.client_cert(user))
        return context

    @contextlib.asynccontextmanager
    async def client(self, user: str = "admin"):  # type: ignore[no-untyped-def]  # an async generator of one session
        connections, responses = Connections(), Responses()
        connector = aiohttp.TCPConnector(ssl=self.tls(user), socket_factory=connections.make)
        timeout = aiohttp.ClientTimeout(total=120)
        made = aiohttp.ClientSession(self.url, connector=connector, timeout=timeout, response_class=responses.kind)
        try:
            async with made as session:
                try:
                    yield session
                finally:
                    responses.close()
        finally:
            await connections.closed()

    async def metrics(self, instance: str) -> str:
        """What the process tells of itself over the bus."""
        bus = Bus(BusOptions(name="", run_dir=self.settings.layout.run))
        await bus.start()
        try:
            return (await bus.call(instance, METRICS, Empty(), MetricsText, timeout=20.0)).text
        finally:
            await bus.close()

    def command(self, *arguments: str) -> list[str]:
        kubectl = str(Path(sys.executable).parent / "kubectl")
        return [kubectl, "--kubeconfig", str(self.root / "kubeconfig"), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """kubectl caches discovery below HOME."""
        return {**os.environ, **BRIEF_GO, "HOME": str(self.root)}

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Its output; without `check` also what it says about a failure."""
        command = self.command(*arguments)
        environment = self.environment
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=90, env=environment, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}\n{self.logs()}")
        return done.stdout + ("" if check else done.stderr)

    def _kubeconfig(self, user: str) -> dict[str, Any]:
        cert, key = self.settings.layout.client_cert(user)
        cluster = {"server": self.url, "certificate-authority": str(self.settings.layout.ca_cert)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"client-certificate": str(cert), "client-key": str(key)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }


@contextlib.contextmanager
def running_plane(sharing: Plane | None = None, store: str = "", **changes: Any) -> Iterator[Plane]:
    plane = Plane(sharing, store, **changes)
    try:
        plane.start()
        yield plane
    finally:
        plane.close()
