"""Every path under ROOT, in one place (fixed contracts of the design: see docs/reference/layout.md)."""

from pathlib import Path

import msgspec

from protocols.errors import SettingsInvalid

SOCKET_PATH_LIMIT = 107
"""Bytes a unix socket path may have on Linux, without the final NUL."""

SYSTEM_CDI = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Directories of CDI files that every runtime reads; the later has precedence."""

LONGEST_RUN_NAME = "supervisor-watcher.pub"


class Layout(msgspec.Struct, frozen=True):
    """Paths below one root directory. Pure: creates nothing.

    `root` is absolute; `kubelet` defaults to ROOT/kubelet and may lie elsewhere (`--kubelet-dir`).
    """

    root: Path
    kubelet: Path

    @property
    def run(self) -> Path:
        """Bus endpoints, locks, pid files, settings. Mode 0700."""
        return self.root / "run"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """One log file per actor, size-bounded by the supervisor."""
        return self.root / "logs"

    @property
    def pod_logs(self) -> Path:
        return self.root / "pods-logs"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def node_kubeconfig(self) -> Path:
        """Credentials of a node group that joined another plane's API; with this file the root has no control plane."""
        return self.pki / "node.kubeconfig"

    @property
    def node_id(self) -> Path:
        """Identity of the root, made at its first start; the Node object's annotation carries it."""
        return self.run / "node.id"

    def node(self, name: str) -> "Layout":
        """Return the root of one of several nodes of a plane."""
        return layout(str(self.root / "nodes" / name))

    @property
    def plane(self) -> Path:
        """The root of the plane that made this root by `node`; this root itself otherwise."""
        return self.root.parent.parent if self.root.parent.name == "nodes" else self.root

    @property
    def settings(self) -> Path:
        return self.run / "settings.json"

    def group_settings(self, supervisor: str) -> Path:
        """Return the path of settings with other feature gates than the plane's, by the group's supervisor."""
        return self.run / f"settings-{supervisor}.json"

    @property
    def store(self) -> Path:
        """Directory of the embedded store's SQLite files."""
        return self.root / "store"

    @property
    def store_socket(self) -> Path:
        """The etcd API for the plane's own processes; etcdctl and others use TLS on loopback."""
        return self.run / "store.sock"

    @property
    def runtime(self) -> Path:
        return self.root / "runtime"

    @property
    def runtime_socket(self) -> Path:
        return self.runtime / "runtime.sock"

    @property
    def cdi(self) -> Path:
        """CDI files for the embedded runtime alone, before those of the machine."""
        return self.root / "cdi"

    @property
    def devices(self) -> Path:
        """The device manager's own checkpoint."""
        return self.root / "devices"

    @property
    def device_plugins(self) -> Path:
        return self.kubelet / "device-plugins"

    @property
    def registration_socket(self) -> Path:
        return self.device_plugins / "kubelet.sock"

    @property
    def plugins_registry(self) -> Path:
        return self.kubelet / "plugins_registry"

    @property
    def plugins(self) -> Path:
        return self.kubelet / "plugins"

    @property
    def dra_state(self) -> Path:
        """Claims that are prepared on this node, in kubelet's own format."""
        return self.kubelet / "dra_manager_state"

    @property
    def dra_health(self) -> Path:
        """Last health reports of DRA drivers for devices in use, in kubelet's own format."""
        return self.kubelet / "dra_health_state"

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def pods_api_socket(self) -> Path:
        return self.kubelet / "pods-api" / "pods-api.sock"

    def grpc_socket(self, name: str) -> Path:
        """Return the private socket of the gRPC server behind a public socket of the front door."""
        return self.run / f"{name}.grpc"

    def client_cert(self, user: str) -> tuple[Path, Path]:
        """Return the certificate and key files (PEM) of an API user, e.g. `admin`, `scheduler`."""
        return self.pki / f"{user}.crt", self.pki / f"{user}.key"

    @property
    def ca_cert(self) -> Path:
        return self.pki / "ca.crt"

    @property
    def front_proxy_ca(self) -> Path:
        """The CA of proxies in front of extension API servers; absent in the root of a joined node."""
        return self.pki / "front-proxy-ca.crt"

    @property
    def etcd_ca(self) -> Path:
        """The store's own CA, as in kubeadm's layout; it signs clients of the store only."""
        return self.pki / "etcd" / "ca.crt"

    @property
    def etcd_server(self) -> tuple[Path, Path]:
        """Certificate and key of the store's TCP port."""
        return self.client_cert("etcd/server")

    @property
    def etcd_client(self) -> tuple[Path, Path]:
        """Certificate and key of those who may read and write the whole store: API server and watch cache."""
        return self.client_cert("apiserver-etcd-client")

    def check_socket_paths(self) -> None:
        """Raise SettingsInvalid when a socket below this root would not fit the kernel's limit."""
        longest = max((self.run / LONGEST_RUN_NAME, self.runtime_socket, self.registration_socket), key=_length)
        over = _length(longest) - SOCKET_PATH_LIMIT
        if over > 0:
            raise SettingsInvalid(
                f"root path too long for unix sockets: {longest} has {over} bytes too many; use a shorter --root"
            )


def _length(path: Path) -> int:
    return len(str(path).encode())


def layout(root: str, kubelet_dir: str = "") -> Layout:
    """Return the layout of an absolute `root`; an empty `kubelet_dir` means ROOT/kubelet."""
    base = Path(root)
    return Layout(root=base, kubelet=Path(kubelet_dir) if kubelet_dir else base / "kubelet")
