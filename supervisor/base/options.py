"""The options of a plane, declared once: a field of PlaneOptions is a flag of `up`, its default and its help.

The command line (cli/flags.py) and the settings that actors read (settings.py) follow from the declaration, and a test
compares the reference page with it.
"""

import os
from collections.abc import Mapping
from typing import Annotated, get_origin

import msgspec

from protocols.process.layout import Layout, layout
from protocols.process.settings import Adopt

LOOPBACK = "127.0.0.1"


def flag(metavar: str, help: str) -> msgspec.Meta:
    """Declare the field as a flag. `{}` in `help` stands for the default."""
    return msgspec.Meta(description=help, extra={"metavar": metavar})


class PlaneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `up` and of a single group, in the order of the help; settings_of checks the values."""

    root: Annotated[
        str, flag("DIR", "root directory (default /var/lib/nodeplane for root, else ~/.local/state/nodeplane)")
    ] = ""
    port: Annotated[int, flag("PORT", "HTTPS port of the API; 0 picks a free one and keeps it (default {})")] = 6443
    bind_address: Annotated[str, flag("IP", "address the API listens on; 0.0.0.0 = all (default {})")] = LOOPBACK
    api_names: Annotated[str, flag("NAME,...", "more names and addresses of the API, for its certificate")] = ""
    kubelet_dir: Annotated[str, flag("DIR", "kubelet directory (default ROOT/kubelet)")] = ""
    node_name: Annotated[str, flag("NAME", "name of the node (default: the host's)")] = ""
    node_ip: Annotated[
        str, flag("IP", "address of the node for an API on another machine (default: the one that leads to the API)")
    ] = ""
    node_port: Annotated[
        int, flag("PORT", "port of the node's own endpoint (logs, exec); {} = a free one (default)")
    ] = 0
    healthz_port: Annotated[int, flag("PORT", "port of the node's /healthz on 127.0.0.1; 0 = none (default {})")] = (
        10248
    )
    join: Annotated[
        str, flag("FILE", "run a node of another plane, by a file of its `nodeplane node-config`; no control plane")
    ] = ""
    nodes: Annotated[
        int, flag("N", "nodes to run on this machine, each below ROOT/nodes but the first (default {})")
    ] = 1
    store: Annotated[
        tuple[str, ...],
        flag(
            "STORE", "{} (default) or etcd://HOST:PORT[,HOST:PORT...]; again with RESOURCE=STORE to keep some elsewhere"
        ),
    ] = ("sqlite",)
    etcd_cafile: Annotated[str, flag("FILE", "CA of the etcd servers; makes the connections to them TLS")] = ""
    etcd_certfile: Annotated[str, flag("FILE", "client certificate for etcd")] = ""
    etcd_keyfile: Annotated[str, flag("FILE", "its key")] = ""
    etcd_compaction_interval: Annotated[
        int, flag("S", "seconds between compactions of etcd; 0 = never (default {})")
    ] = 300
    node_monitor_grace_period: Annotated[
        int, flag("S", "seconds without a renewed lease after which a node is lost, at least 15 (default {})")
    ] = 50
    leader_elect: Annotated[
        str, flag("BOOL", "controllers and scheduler elect one leader: {} (default: with etcd), true, false")
    ] = "auto"
    store_port: Annotated[
        int, flag("PORT", "loopback port of the embedded store's etcd API; {} = a free one (default)")
    ] = 0
    store_sync: Annotated[str, flag("MODE", "SQLite synchronous of the embedded store: {} (default) or normal")] = (
        "full"
    )
    store_quota_bytes: Annotated[
        str, flag("SIZE", "what the embedded store may use of the disk; 0 = all (default {})")
    ] = "8Gi"
    runtime: Annotated[str, flag("RUNTIME", "{} (default) or unix:///PATH of a CRI socket")] = "embedded"
    images: Annotated[
        str, flag("WHICH", "of the embedded runtime: {} (default), any name runs on the host's files; or imported")
    ] = "host"
    pleg_mode: Annotated[str, flag("MODE", "use of the runtime's events: {} (default), evented, hint or generic")] = (
        "auto"
    )
    container_log_max_size: Annotated[
        str, flag("SIZE", "a container's log is rotated beyond this size (default {})")
    ] = "10Mi"
    container_log_max_files: Annotated[int, flag("N", "files of one container's log, at least 2 (default {})")] = 5
    allowed_unsafe_sysctls: Annotated[
        str, flag("NAMES", "sysctls that pods may set beside the safe ones: names or prefixes*, comma-separated")
    ] = ""
    pod_resources_qps: Annotated[int, flag("N", "unary pod resources calls a second; 0 = no limit (default {})")] = 100
    pod_resources_watchers: Annotated[int, flag("N", "pod resources watches open at once (default {})")] = 4096
    pod_resources_health_address: Annotated[
        str, flag("IP:PORT", "serve gRPC health of pod resources here too, for probes")
    ] = ""
    pod_resources_socket_mode: Annotated[str, flag("MODE", "mode of the pod resources sockets (default {})")] = "0600"
    pod_resources_socket_group: Annotated[
        str, flag("GROUP", "group of the pod resources sockets and of their directories")
    ] = ""
    device_health_rate: Annotated[
        int, flag("N", "status changes a second of one pod whose devices flap (default {})")
    ] = 2
    metrics_port: Annotated[int, flag("PORT", "port of the metrics page on 127.0.0.1; 0 = a free one (default {})")] = (
        10255
    )
    cpu_manager_policy: Annotated[
        str, flag("POLICY", "{} (default) or static: exclusive CPUs for Guaranteed pods with whole CPUs")
    ] = "none"
    cpu_manager_policy_options: Annotated[
        str, flag("NAME=BOOL,...", "options of the static CPU policy, kubelet's names")
    ] = ""
    memory_manager_policy: Annotated[
        str, flag("POLICY", "{} (default) or Static: memory of Guaranteed pods on NUMA nodes")
    ] = "None"
    topology_manager_policy: Annotated[
        str, flag("POLICY", "{} (default), best-effort, restricted or single-numa-node")
    ] = "none"
    topology_manager_scope: Annotated[str, flag("SCOPE", "{} (default) or pod")] = "container"
    topology_manager_policy_options: Annotated[
        str, flag("NAME=VALUE,...", "prefer-closest-numa-nodes, max-allowable-numa-nodes")
    ] = ""
    reserved_cpus: Annotated[str, flag("CPUS", "CPUs kept from exclusive use, like 0-1,8")] = ""
    reserved_memory: Annotated[
        tuple[str, ...], flag("NODE:TYPE=SIZE,...", "memory of a NUMA node kept from pods; may be repeated")
    ] = ()
    kube_reserved: Annotated[str, flag("NAME=AMOUNT,...", "kept from pods: cpu, memory, ephemeral-storage")] = ""
    system_reserved: Annotated[str, flag("NAME=AMOUNT,...", "kept from pods beside that")] = ""
    sysfs_root: Annotated[str, flag("DIR", "where sys and proc of the machine are (default {})")] = "/"
    metrics_address: Annotated[str, flag("IP", "address of the metrics page (default {})")] = LOOPBACK
    feature_gates: Annotated[str, flag("NAME=BOOL,...", "feature gates to turn off or on; all are on")] = ""
    log_level: Annotated[str, flag("LEVEL", "debug, {} (default), warning or error")] = "info"
    watchers: Annotated[int, flag("N", "API processes to run (default {})")] = 1

    adopt: Adopt | None = None
    """Serve the pod resources of the real kubelet of this machine, and nothing else; set by `nodeplane adopt`."""


class Flag(msgspec.Struct, frozen=True):
    """One flag; `field` names it in PlaneOptions."""

    field: str
    metavar: str
    help: str
    default: str
    number: bool
    many: bool
    """The flag may be repeated."""

    @property
    def option(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable that stands for the flag."""
        return f"NODEPLANE_{self.field.upper()}"


def _declared_flags() -> Mapping[str, Flag]:
    found = {}
    for field in msgspec.structs.fields(PlaneOptions):
        declared = PlaneOptions.__annotations__[field.name]
        for meta in getattr(declared, "__metadata__", ()):
            default = " ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            kind = declared.__origin__
            found[field.name] = Flag(
                field=field.name,
                metavar=meta.extra["metavar"],
                help=meta.description.format(default),
                default=default,
                number=kind is int,
                many=get_origin(kind) is tuple,
            )
    return found


FLAGS = _declared_flags()
"""By field, in the order of the help."""


def default_root() -> str:
    return "/var/lib/nodeplane" if os.geteuid() == 0 else os.path.expanduser("~/.local/state/nodeplane")


def layout_of(options: PlaneOptions) -> Layout:
    """Return the paths below the root. Raises SettingsInvalid if sockets would have too long paths there."""
    root = os.path.abspath(os.path.expanduser(options.root or default_root()))
    kubelet = os.path.abspath(os.path.expanduser(options.kubelet_dir)) if options.kubelet_dir else ""
    made = layout(root, kubelet)
    made.check_socket_paths()
    return made
