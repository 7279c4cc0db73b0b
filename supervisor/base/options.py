"""The options of a plane, declared once: a field of PlaneOptions is a flag of `up`, its default and its help.

The command line (cli/flags.py), the settings that actors read (settings.py) and the tables of the reference page
(cli/reference.py) follow from the declaration.
"""

import os
from collections.abc import Mapping
from typing import Annotated, get_origin

import msgspec

from protocols.node.alignment import Alignment
from protocols.process.layout import Layout, layout
from protocols.process.settings import Adopt, PodResourcesSettings

LOOPBACK = "127.0.0.1"
VARIABLE = "NODEPLANE_"
"""Prefix of the environment variables that stand for flags."""
BOOLEANS = ("true", "false")
_ALIGNMENT, _POD_RESOURCES = Alignment(), PodResourcesSettings()


def flag(
    metavar: str, help: str, *, default: str = "", kubelet: str = "", page: str = "", values: tuple[str, ...] = ()
) -> msgspec.Meta:
    """Declare a field as a flag.

    Args:
        metavar: Placeholder of the value.
        help: The meaning, without the default.
        default: The default in words, where it is computed.
        kubelet: Name of the setting in kubelet's configuration.
        page: What the reference page has beyond the help, in Markdown.
        values: All values of a flag that has few.
    """
    extra = {"metavar": metavar, "default": default, "kubelet": kubelet, "page": page, "values": values}
    return msgspec.Meta(description=help, extra=extra)


class PlaneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `up` and of a single group, in the order of the help; settings_of checks the values."""

    root: Annotated[
        str,
        flag(
            "DIR",
            "the plane's state; socket paths below it must fit 107 bytes",
            default="/var/lib/nodeplane for root, else ~/.local/state/nodeplane",
        ),
    ] = ""
    port: Annotated[
        int,
        flag("PORT", "HTTPS port of the API; 0 = a free one, which is kept as long as it is free"),
    ] = 6443
    bind_address: Annotated[str, flag("IP", "address the API listens on; 0.0.0.0 or :: = all of the machine's")] = (
        LOOPBACK
    )
    advertise_address: Annotated[
        str,
        flag(
            "IP",
            "address of the API for pods, in its certificate and in the endpoints of the service kubernetes",
            default="--bind-address; of all: the machine's",
        ),
    ] = ""
    api_names: Annotated[str, flag("NAME,...", "further names and addresses of the API, for its certificate")] = ""
    kubelet_dir: Annotated[
        str, flag("DIR", "kubelet directory; /var/lib/kubelet makes it a drop-in", default="ROOT/kubelet")
    ] = ""
    node_name: Annotated[str, flag("NAME", "name of the node, a DNS name", default="the host's")] = ""
    node_ip: Annotated[
        str,
        flag(
            "IP",
            "address of the node for logs and exec, and its InternalIP",
            default="loopback; joined: towards the API",
        ),
    ] = ""
    node_port: Annotated[
        int,
        flag(
            "PORT",
            "port of the node's own endpoint (logs, exec); 0 = a free one, which is kept as long as it is free",
        ),
    ] = 0
    healthz_port: Annotated[
        int,
        flag(
            "PORT",
            "port of the node's /healthz on 127.0.0.1; 0 = none",
            page="while another process has it (a real kubelet), it is retried every 5 s",
        ),
    ] = 10248
    join: Annotated[
        str,
        flag(
            "FILE",
            "run a node of another plane, by a file of its `nodeplane node-config` or a kubelet's; no control plane",
            page="the root retains it ([how-to](../how-to/run-several-nodes.md))",
        ),
    ] = ""
    nodes: Annotated[int, flag("N", "nodes on this machine; those beyond the first lie below ROOT/nodes/NAME")] = 1
    store: Annotated[
        tuple[str, ...],
        flag(
            "STORE",
            "sqlite or etcd://HOST:PORT[,HOST:PORT...]; again with RESOURCE[,RESOURCE...]=STORE to keep some elsewhere",
            page="such as `events=etcd://b:2379` or `coordination.k8s.io/leases=sqlite`",
        ),
    ] = ("sqlite",)
    etcd_cafile: Annotated[str, flag("FILE", "CA of the etcd servers; makes the connections to all of them TLS")] = ""
    etcd_certfile: Annotated[str, flag("FILE", "client certificate for etcd")] = ""
    etcd_keyfile: Annotated[str, flag("FILE", "its key")] = ""
    etcd_compaction_interval: Annotated[
        int,
        flag(
            "S",
            "seconds between compactions of etcd, which retains one to two intervals of history; 0: others compact it",
        ),
    ] = 300
    node_monitor_grace_period: Annotated[
        int,
        flag(
            "S",
            "seconds without a renewed lease after which a node is lost, at least 15",
            page="[lost nodes](../explanation/lost-nodes.md)",
        ),
    ] = 50
    leader_elect: Annotated[
        str,
        flag(
            "BOOL",
            "controllers and scheduler work only while they hold their Lease: true, false, or auto: with an etcd",
            values=("auto", *BOOLEANS),
        ),
    ] = "auto"
    scheduler_seed: Annotated[
        int,
        flag(
            "N",
            "seed of the scheduler's choice among nodes with the same score, to repeat a run; 0 = a new one each start",
            page="[how it chooses](../explanation/scheduling.md#which-node)",
        ),
    ] = 0
    device_binding_timeout: Annotated[
        int,
        flag(
            "S",
            "seconds that devices with binding conditions may take until they are ready for their pod, at least 1",
            page="[binding conditions](../how-to/schedule-devices.md#wait-for-devices-that-are-prepared-late)",
        ),
    ] = 600
    store_port: Annotated[
        int,
        flag(
            "PORT",
            "loopback port of the embedded store's etcd API (mutual TLS); 0 = a free one, kept as long as it is free",
        ),
    ] = 0
    store_sync: Annotated[
        str, flag("MODE", "SQLite synchronous of the embedded store: full or normal", values=("full", "normal"))
    ] = "full"
    store_quota_bytes: Annotated[
        str, flag("SIZE", "disk space of the embedded store; beyond it only deletions succeed; 0: no quota")
    ] = "8Gi"
    runtime: Annotated[str, flag("RUNTIME", "embedded or unix:///PATH of a CRI socket")] = "embedded"
    images: Annotated[
        str,
        flag(
            "WHICH",
            "images of the embedded runtime: host, any name runs on the host's files; or imported, no others exist",
            values=("host", "imported"),
        ),
    ] = "host"
    pleg_mode: Annotated[
        str,
        flag(
            "MODE",
            "use of the runtime's events: auto, evented, hint or generic",
            page="[explanation](../explanation/pleg.md)",
            values=("auto", "evented", "hint", "generic"),
        ),
    ] = "auto"
    max_pods: Annotated[int, flag("N", "pods that the node runs at most")] = 110
    container_log_max_size: Annotated[str, flag("SIZE", "size beyond which a running container's log is rotated")] = (
        "10Mi"
    )
    container_log_max_files: Annotated[int, flag("N", "log files of one run, the current one included; at least 2")] = 5
    allowed_unsafe_sysctls: Annotated[
        str,
        flag(
            "NAMES",
            "sysctls that pods may set beside the safe ones: names, or prefixes that end with *, comma-separated",
            page="[which are safe](pod-lifecycle.md#sysctls)",
        ),
    ] = ""
    claim_health_names: Annotated[
        str,
        flag(
            "FORM",
            "names of claims' devices in allocatedResourcesStatus: request (claim:NAME/REQUEST where the request is "
            "known, as in KEP-4680) or reference (as the container names the claim, as kubelet)",
            page="a kube-apiserver validates for `reference`",
            values=("request", "reference"),
        ),
    ] = "request"
    init_container_devices: Annotated[
        str,
        flag(
            "WHERE",
            "where the devices of init containers are shown: watch (device health, events and the watches of pod "
            "resources), list (also List and Get), none (nowhere, as kubelet)",
            page="[what is listed](pod-resources.md#what-is-listed)",
            values=("watch", "list", "none"),
        ),
    ] = "watch"
    pod_resources_qps: Annotated[
        int,
        flag(
            "N",
            "unary calls of pod resources a second, of all clients together, and as many opened watches; 0 = no limit",
        ),
    ] = _POD_RESOURCES.qps
    pod_resources_watchers: Annotated[
        int, flag("N", "watches of pod resources open at once", page="64 of one process")
    ] = _POD_RESOURCES.watchers
    pod_resources_health_address: Annotated[
        str,
        flag("IP:PORT", "gRPC health of pod resources over TCP as well, for probes, which cannot reach a unix socket"),
    ] = ""
    pod_resources_socket_mode: Annotated[str, flag("MODE", "mode of the pod resources sockets")] = "0600"
    pod_resources_socket_group: Annotated[
        str,
        flag(
            "GROUP",
            "group of the pod resources sockets and their directories; with mode 660 its members may connect",
        ),
    ] = ""
    device_health_rate: Annotated[
        int,
        flag("N", "changes a second of one pod's device health status", page="[explanation](../explanation/health.md)"),
    ] = 2
    service_cluster_ip_range: Annotated[
        str,
        flag("CIDR", "addresses for clusterIPs; two CIDRs with a comma, one of each family: dual-stack services"),
    ] = "10.96.0.0/16"
    disable_admission_plugins: Annotated[
        str,
        flag("NAMES", "ServiceAccount: pods need no service account and get no token"),
    ] = ""
    runtime_config: Annotated[
        str,
        flag(
            "GROUP/VERSION=BOOL,...",
            "API versions to serve or not: resource.k8s.io/v1alpha3 and resource.k8s.io/v1beta1",
            default="all on",
            page="without v1alpha3 there are no ResourceSlicePatches; stored ones stay stored",
        ),
    ] = ""
    kubelet_insecure_tls: Annotated[
        str,
        flag(
            "BOOL",
            "true: the API server accepts any certificate of a node, since kubelets sign their own",
            page="unless `serverTLSBootstrap` is set; who answers at a node's address then reads what `exec` sends",
            values=BOOLEANS,
        ),
    ] = "false"
    metrics_port: Annotated[
        int, flag("PORT", "port of the metrics page; 0 = a free one; one in use is retried every 5 s")
    ] = 10255
    cpu_manager_policy: Annotated[
        str,
        flag(
            "POLICY",
            "none, or static: exclusive CPUs for Guaranteed pods with whole CPUs",
            kubelet="cpuManagerPolicy",
            values=("none", "static"),
        ),
    ] = _ALIGNMENT.cpuManagerPolicy
    cpu_manager_policy_options: Annotated[
        str,
        flag(
            "NAME=BOOL,...",
            "options of the static CPU policy, kubelet's names",
            kubelet="cpuManagerPolicyOptions",
            page="full-pcpus-only, strict-cpu-reservation, distribute-cpus-across-numa, distribute-cpus-across-cores, "
            "align-by-socket, prefer-align-cpus-by-uncorecache; upstream's gates for the newer ones are not required",
        ),
    ] = ""
    memory_manager_policy: Annotated[
        str,
        flag(
            "POLICY",
            "None, or Static: memory of Guaranteed pods on NUMA nodes",
            kubelet="memoryManagerPolicy",
            values=("None", "Static"),
        ),
    ] = _ALIGNMENT.memoryManagerPolicy
    topology_manager_policy: Annotated[
        str,
        flag(
            "POLICY",
            "none, best-effort, restricted or single-numa-node",
            kubelet="topologyManagerPolicy",
            values=("none", "best-effort", "restricted", "single-numa-node"),
        ),
    ] = _ALIGNMENT.topologyManagerPolicy
    topology_manager_scope: Annotated[
        str, flag("SCOPE", "container or pod", kubelet="topologyManagerScope", values=("container", "pod"))
    ] = _ALIGNMENT.topologyManagerScope
    topology_manager_policy_options: Annotated[
        str,
        flag(
            "NAME=VALUE,...",
            "prefer-closest-numa-nodes, max-allowable-numa-nodes (8 or more)",
            kubelet="topologyManagerPolicyOptions",
        ),
    ] = ""
    reserved_cpus: Annotated[
        str,
        flag(
            "CPUS",
            "CPUs excluded from exclusive use, like 0-1,8; overrides reserved amounts of cpu",
            kubelet="reservedSystemCPUs",
        ),
    ] = ""
    reserved_memory: Annotated[
        tuple[str, ...],
        flag(
            "NODE:TYPE=SIZE,...",
            "memory of a NUMA node kept from pods, types memory and hugepages-SIZE; repeated, or separated by `;`",
            kubelet="reservedMemory",
        ),
    ] = ()
    kube_reserved: Annotated[
        str,
        flag(
            "NAME=AMOUNT,...",
            "cpu, memory and ephemeral-storage subtracted from capacity for allocatable; pid has no effect",
            kubelet="kubeReserved",
        ),
    ] = ""
    system_reserved: Annotated[str, flag("NAME=AMOUNT,...", "subtracted beside that", kubelet="systemReserved")] = ""
    sysfs_root: Annotated[str, flag("DIR", "directory with the machine's sys and proc")] = _ALIGNMENT.sysfsRoot
    metrics_address: Annotated[str, flag("IP", "address of the metrics page; 0.0.0.0 for a scraper outside")] = LOOPBACK
    otlp: Annotated[
        str,
        flag(
            "URL",
            "export the traces of pods to an OpenTelemetry receiver, such as http://127.0.0.1:4318",
            default="not",
            page="OTLP over HTTP, [the trace](trace.md#export)",
        ),
    ] = ""
    record: Annotated[
        str,
        flag(
            "FILE",
            "record the plane to a file, for `why --replay` and `console --replay`",
            default="not",
            page="[recordings](recording.md)",
        ),
    ] = ""
    record_limit: Annotated[
        str, flag("SIZE", "size of that file, beyond which its oldest part is left out; 1Mi to 1Gi")
    ] = "64Mi"
    feature_gates: Annotated[str, flag("NAME=BOOL,...", "upstream's feature gates to turn off", default="all on")] = ""
    feature_gate_skew: Annotated[
        str,
        flag(
            "BOOL",
            "true: the feature gates of this group may differ from those of the groups that run already, as between "
            "versions of Kubernetes",
            page="[try it](../explanation/patching.md#off-and-on-again)",
            values=BOOLEANS,
        ),
    ] = "false"
    log_level: Annotated[
        str,
        flag(
            "LEVEL",
            "debug, info, warning or error",
            page="`-v` is debug: pleg logs [a line for each PodLifecycleEvent](../explanation/pleg.md#try-it)",
            values=("debug", "info", "warning", "error"),
        ),
    ] = "info"
    watchers: Annotated[int, flag("N", "API processes")] = 1

    adopt: Adopt | None = None
    """Serve the pod resources of the real kubelet of this machine, and nothing else; set by `nodeplane adopt`."""


class Flag(msgspec.Struct, frozen=True):
    """One flag; `field` names it in PlaneOptions."""

    field: str
    metavar: str
    help: str
    default: str
    kubelet: str
    """Name of the setting in kubelet's configuration."""
    page: str
    """Markdown of the reference page that follows the help."""
    values: tuple[str, ...]
    """All values of a flag that has few."""
    number: bool
    many: bool
    """The flag may be repeated."""

    @property
    def option(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable that stands for the flag."""
        return VARIABLE + self.field.upper()


def _declared_flags() -> Mapping[str, Flag]:
    flags = {}
    for field in msgspec.structs.fields(PlaneOptions):
        declared = PlaneOptions.__annotations__[field.name]
        for meta in getattr(declared, "__metadata__", ()):
            default = " ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            kind = declared.__origin__
            flags[field.name] = Flag(
                field=field.name,
                help=meta.description,
                **{**meta.extra, "default": default or meta.extra["default"]},
                number=kind is int,
                many=get_origin(kind) is tuple,
            )
    return flags


FLAGS = _declared_flags()
"""By field, in the order of the help."""


def default_root() -> str:
    """Return ROOT of a plane without --root: of the system for root, else of the user."""
    return "/var/lib/nodeplane" if os.geteuid() == 0 else os.path.expanduser("~/.local/state/nodeplane")


def layout_of(options: PlaneOptions) -> Layout:
    """Return the paths below the root. Raises SettingsInvalid if sockets would have too long paths there."""
    root = os.path.abspath(os.path.expanduser(options.root or default_root()))
    kubelet = os.path.abspath(os.path.expanduser(options.kubelet_dir)) if options.kubelet_dir else ""
    paths = layout(root, kubelet)
    paths.check_socket_paths()
    return paths
