"""Settings of a whole plane: written once by the supervisor, read by each actor at its start."""

from pathlib import Path

import msgspec

from protocols.errors import SettingsInvalid
from protocols.node.alignment import Alignment
from protocols.process.files import UNREADABLE, read_state, write_atomic
from protocols.process.layout import Layout, layout

GATES = (
    "KubeletPodResourcesWatch",
    "KubeletPodResourcesListUseActivePods",
    "PodsAPI",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
    "DRAAdminControlledDeviceAttributes",
    "DRADeviceTaints",
    "DRADeviceBindingConditions",
    "DRAConsumableCapacity",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAPreemption",
    "EfficientWatchResumption",
    "EventedPLEG",
)


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One store of API objects, and the resources it holds."""

    endpoints: tuple[str, ...]
    """gRPC targets of its etcd API: `unix:PATH` for the embedded store, `host:port` for members of an etcd cluster."""
    embedded: bool = False
    resources: tuple[str, ...] = ()
    """Qualified names: `events`, `leases.coordination.k8s.io`. Empty: everything that no other store names."""


class EtcdFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEM files for external etcds. With `ca` the connection is TLS; with `cert` and `key` it is mutual."""

    ca: str = ""
    cert: str = ""
    key: str = ""


class PodResourcesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The front door: what clients of pod resources may do."""

    qps: int = 100
    """Unary calls a second of all clients together, kubelet's figure, and as many opened watches; 0 = no limit."""
    burst: int = 10
    watchers: int = 4096
    """Watches open at once."""
    watchers_per_client: int = 64
    """Watches that one process may have open."""
    health_address: str = ""
    """HOST:PORT where gRPC health is also served over TCP, for probes from outside; empty = not."""
    socket_mode: int = 0o600
    socket_group: str = ""
    """Number of the group that the sockets and their directories belong to; empty = the process's own."""


class Adopt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sockets and intervals of `nodeplane adopt`."""

    pod_resources: str
    """Absolute path of kubelet's pod resources socket."""
    socket: str
    """Absolute path of the socket that is served."""
    poll_s: float = 10.0
    """Seconds between two lists while the runtime streams its events: device plugins send none."""
    eventless_s: float = 2.0
    """The same on a runtime without events."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shape of ROOT/run/settings.json. Every field has its final value here: no actor computes a default."""

    root: str
    """Absolute root directory."""
    kubelet_dir: str
    """Absolute kubelet directory, ROOT/kubelet unless --kubelet-dir was given."""
    node_name: str
    node_ip: str
    """Address the node is known by and its own endpoint (logs, exec) listens at; empty = it listens on loopback."""
    node_port: int
    """Port of that endpoint; 0 = a free one."""
    healthz_port: int
    """Loopback port of the node's /healthz, as kubelet's; 0 = it is not served."""
    joined: bool = False
    """A node group alone: the API is another plane's, and this root has no control plane."""
    port: int
    """HTTPS port of the API; never 0 here."""
    bind_address: str
    """IP address the API listens on; 0.0.0.0 or :: = all."""
    api_names: tuple[str, ...]
    """Names and addresses beside the plane's own that clients may know the API by: they stand in its certificate."""
    advertise_address: str = "127.0.0.1"
    """Address of the API in the endpoints of the service `kubernetes`, and for pods."""
    api_url: str
    """Address for API clients: https://127.0.0.1:PORT, or another machine's API for a lone node group."""
    store_endpoints: tuple[str, ...]
    """gRPC targets of the main store's etcd API: `unix:PATH` for the embedded store, `host:port` for etcd."""
    store_embedded: bool
    store_splits: tuple[StoreSettings, ...]
    """Stores beside the main one, each with the resources it holds."""
    etcd_files: EtcdFiles
    etcd_compaction_s: int
    """Seconds between two compactions of an external etcd; 0 = somebody else compacts it."""
    node_monitor_grace_s: int
    """Seconds without a renewed lease after which a node is lost."""
    leader_elect: bool
    """Controllers and scheduler work only while they hold their lease: other control planes use the same store."""
    store_port: int
    """Loopback TCP port of the embedded store's etcd API (mutual TLS); 0 = a free one, see ROOT/run/store.addr."""
    store_sync: str
    """SQLite `synchronous` of the embedded store: `full` or `normal`."""
    store_quota_bytes: int
    """Bytes of the embedded store's file in use beyond which it only deletes; 0 = none."""
    runtime_endpoint: str
    """gRPC target of the CRI socket, `unix:///...`."""
    runtime_embedded: bool
    images: str
    """Unknown image names in the embedded runtime: `host`, they stand for the host's own files; `imported`, they do not
    exist."""
    pleg_mode: str
    """`auto`, `evented`, `hint` or `generic`: what pleg makes of the runtime's events."""
    max_pods: int
    """Allocatable pods of the node."""
    container_log_max_size: int
    """Bytes; a container's log that is larger is set aside."""
    container_log_max_files: int
    """Files a container run's log may have, the one that is written included."""
    allowed_unsafe_sysctls: tuple[str, ...]
    """Names, and prefixes that end with `*`, that pods may set beside the safe ones."""
    pod_resources: PodResourcesSettings
    claim_health_names: str
    """Names of claims' devices in allocatedResourcesStatus: `request` or `reference`."""
    init_container_devices: str
    """`watch`: device health, events and watches show the devices of init containers; `list`: List and Get, too;
    `none`: nothing does, as kubelet."""
    kubelet_insecure_tls: bool
    """The API server accepts any certificate of a node's endpoint: kubelets sign their own by default."""
    adopt: Adopt | None = None
    """Set where the real kubelet gives out the devices: its pod resources are served, and nothing else is done."""
    device_health_rate: int
    """Changes a second of one pod's status that the health of its devices may cause, after a few at once."""
    metrics_port: int
    metrics_address: str
    alignment: Alignment
    """Placement of CPUs, memory and devices on the machine."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Upstream's names of admission plugins that the API server leaves out."""
    disabled_versions: tuple[str, ...] = ()
    """API versions that are not served, such as `resource.k8s.io/v1alpha3`."""
    otlp: str
    """URL to which spans are posted (OTLP/HTTP); empty = they are not exported."""
    record: str = ""
    """Absolute path of the file to which the plane is recorded; empty = it is not."""
    record_limit: int = 64 << 20
    """Bytes of that file."""
    service_cluster_ip_range: str = "10.96.0.0/16"
    """CIDRs from which services get addresses, separated by a comma: one, or one of each IP family."""
    scheduler_seed: int = 0
    """Seed of the scheduler's choice among equal nodes; 0 = random."""
    device_binding_timeout_s: int = 600
    """Seconds from the allocation of devices with binding conditions until they must be ready for their pod."""
    feature_gates: dict[str, bool]
    log_level: str

    @property
    def layout(self) -> Layout:
        return layout(self.root, self.kubelet_dir)

    def node_layout(self, number: int) -> Layout:
        """Return the paths of node `number`, from 2 on, of a plane with several."""
        return self.layout.node(f"{self.node_name}-{number}")

    def check_node_paths(self, count: int) -> None:
        """Raise SettingsInvalid if sockets of the last of so many nodes would have too long paths."""
        if count > 1:
            self.node_layout(count).check_socket_paths()

    @property
    def stores(self) -> tuple[StoreSettings, ...]:
        """All stores of API objects; the first one holds all resources that no other names."""
        return (StoreSettings(endpoints=self.store_endpoints, embedded=self.store_embedded), *self.store_splits)

    @property
    def runs_store(self) -> bool:
        """True when the plane has a store process of its own."""
        return any(store.embedded for store in self.stores)

    def store_of(self, resource: str) -> int:
        """Index in `stores` of the one that holds a resource, by its qualified name."""
        return next((at for at, store in enumerate(self.stores) if resource in store.resources), 0)

    def gate(self, name: str) -> bool:
        """Return True when a feature gate is on; all of GATES are on unless turned off."""
        return self.feature_gates.get(name, True)


_decoder = msgspec.json.Decoder(Settings)  # made at import, before actors are forked: each would make its own


def load_settings(path: Path) -> Settings:
    """Read a settings file; raises SettingsInvalid when it is missing, not JSON or has unknown keys."""
    try:
        return _decoder.decode(read_state(path))
    except OSError as error:
        raise SettingsInvalid(
            f"cannot read settings {path}: {error.strerror}; start the plane with `nodeplane up`"
        ) from None
    except UNREADABLE as error:
        raise SettingsInvalid(f"settings {path} are not valid: {error}; delete the file and start again") from None


def save_settings(path: Path, settings: Settings) -> None:
    """Write settings with mode 0600, atomically."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n", mode=0o600)
