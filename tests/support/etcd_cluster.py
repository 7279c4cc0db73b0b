"""Members of a real etcd cluster on loopback, each to be killed and started again alone."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.process.settings import EtcdFiles
from supervisor.pki.certificates import Certificate, Wanted
from supervisor.pki.issue import issue
from tests.support.ports import free_port
from tests.support.store_lab import short_directory, until

LOCAL = ("127.0.0.1", "localhost")


class Cluster:
    """Clients speak TLS with certificates when `pki` is given; members trust each other on loopback."""

    def __init__(
        self,
        binary: str,
        root: Path,
        members: int = 1,
        pki: Path | None = None,
        progress: str = "1s",
        address: str = LOCAL[0],
    ) -> None:
        self._binary, self._root, self._pki, self._progress = binary, root, pki, progress
        self._address = address
        self._clients = [free_port() for _ in range(members)]
        self._peers = [free_port() for _ in range(members)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(f"{self._address}:{port}" for port in self._clients)

    @property
    def pids(self) -> list[int]:
        """Of the members that run."""
        return [process.pid for process in self._processes.values()]

    @property
    def store(self) -> str:
        """As `--store` takes it."""
        return f"etcd://{','.join(self.endpoints)}"

    @property
    def files(self) -> EtcdFiles:
        if self._pki is None:
            return EtcdFiles()
        return EtcdFiles(ca=str(self._pki / "ca.crt"), cert=str(self._pki / "np.crt"), key=str(self._pki / "np.key"))

    def options(self, members: int = 0) -> EtcdOptions:
        """Of a client of the first so many members; 0 = of all."""
        endpoints = self.endpoints[: members or None]
        ca, cert, key = (Path(path) if path else None for path in (self.files.ca, self.files.cert, self.files.key))
        return EtcdOptions(endpoints=endpoints, ca=ca, cert=cert, key=key)

    async def put(self, key: str, value: str) -> int:
        """By another client of the same etcd; the revision."""
        client = EtcdClient(self.options())
        await client.start()
        try:
            return await client.put(key.encode(), value.encode())
        finally:
            await client.close()

    def start(self, *members: int) -> None:
        for member in members or range(len(self._clients)):
            with (self._root / f"m{member}.log").open("ab") as log:
                command = [self._binary, *(f"--{name}={value}" for name, value in self._flags(member).items())]
                self._processes[member] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._root)

    def wait(self) -> None:
        """All members that were started serve."""
        for member in self._processes:
            until(f"member {member} serves", lambda member=member: self._serves(member), 60.0)  # type: ignore[misc]

    def kill(self, *members: int) -> None:
        """-9, all at once."""
        chosen = members or tuple(self._processes)
        for member in chosen:
            self._processes[member].kill()
        for member in chosen:
            self._processes.pop(member).wait(30)

    def signal(self, member: int, number: int) -> None:
        self._processes[member].send_signal(number)

    def close(self) -> None:
        if self._processes:
            self.kill()

    def _serves(self, member: int) -> bool:
        """Its client port opens once it has joined the cluster."""
        try:
            with socket.create_connection((self._address, self._clients[member]), 5.0):
                return True
        except OSError:
            return False

    def _peer(self, member: int) -> str:
        return f"http://{LOCAL[0]}:{self._peers[member]}"

    def _flags(self, member: int) -> dict[str, str]:
        scheme = "https" if self._pki else "http"
        client, peer = f"{scheme}://{self._address}:{self._clients[member]}", self._peer(member)
        flags = {
            "name": f"m{member}",
            "data-dir": str(self._root / f"m{member}"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"m{at}={self._peer(at)}" for at in range(len(self._peers))),
            "experimental-watch-progress-notify-interval": self._progress,
            "heartbeat-interval": "50",
            "election-timeout": "500",
            "log-level": "error",
        }
        if self._pki:
            flags |= {
                "cert-file": str(self._pki / "etcd.crt"),
                "key-file": str(self._pki / "etcd.key"),
                "trusted-ca-file": str(self._pki / "ca.crt"),
                "client-cert-auth": "true",
            }
        return flags


@contextmanager
def cluster(
    binary: str, members: int = 1, tls: bool = False, progress: str = "1s", address: str = LOCAL[0]
) -> Iterator[Cluster]:
    """`address`: where clients reach the members, an address of this machine."""
    with short_directory() as root:
        if tls:
            hosts = (*LOCAL, address)
            issue(root / "pki", Wanted((Certificate("etcd", "etcd", hosts=hosts), Certificate("np", "nodeplane"))))
        made = Cluster(binary, root, members, root / "pki" if tls else None, progress, address)
        try:
            made.start()
            made.wait()
            yield made
        finally:
            made.close()
