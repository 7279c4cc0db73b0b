"""Flags shared by commands. Every flag may also be given as an environment variable NODEPLANE_FLAG_NAME."""

import argparse
import os
from collections.abc import Container, Mapping
from typing import NoReturn

import msgspec

from protocols.layout import Layout
from supervisor.errors import Usage
from supervisor.options.plane import PlaneOptions, layout_of


class Flag(msgspec.Struct, frozen=True):
    """One flag of `up`; `field` names it in PlaneOptions."""

    field: str
    metavar: str
    help: str
    number: bool = False
    many: bool = False

    @property
    def option(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        return f"NODEPLANE_{self.field.upper()}"


ROOT = Flag("root", "DIR", "root directory (default /var/lib/nodeplane for root, else ~/.local/state/nodeplane)")

PLANE = (
    ROOT,
    Flag(
        "port",
        "PORT",
        "HTTPS port of the API; 0 picks a free one and keeps it (default 6443)",
        number=True,
    ),
    Flag("bind_address", "IP", "address the API listens on; 0.0.0.0 = all (default 127.0.0.1)"),
    Flag("api_names", "NAME,...", "more names and addresses of the API, for its certificate"),
    Flag("kubelet_dir", "DIR", "kubelet directory (default ROOT/kubelet)"),
    Flag("node_name", "NAME", "name of the node (default: the host's)"),
    Flag("node_ip", "IP", "address of the node for an API on another machine (default: the one that leads to the API)"),
    Flag("node_port", "PORT", "port of the node's own endpoint (logs, exec); 0 = a free one (default)", number=True),
    Flag("join", "FILE", "run a node of another plane, by a file of its `nodeplane node-config`; no control plane"),
    Flag("nodes", "N", "nodes to run on this machine, each below ROOT/nodes but the first (default 1)", number=True),
    Flag(
        "store",
        "STORE",
        "sqlite (default) or etcd://HOST:PORT[,HOST:PORT...]; again with RESOURCE=STORE to keep some elsewhere",
        many=True,
    ),
    Flag("etcd_cafile", "FILE", "CA of the etcd servers; makes the connections to them TLS"),
    Flag("etcd_certfile", "FILE", "client certificate for etcd"),
    Flag("etcd_keyfile", "FILE", "its key"),
    Flag("etcd_compaction_interval", "S", "seconds between compactions of etcd; 0 = never (default 300)", number=True),
    Flag("leader_elect", "BOOL", "controllers and scheduler elect one leader: auto (default: with etcd), true, false"),
    Flag("store_port", "PORT", "loopback port of the embedded store's etcd API; 0 = a free one (default)", number=True),
    Flag("store_sync", "MODE", "SQLite synchronous of the embedded store: full (default) or normal"),
    Flag("store_quota_bytes", "SIZE", "what the embedded store may use of the disk; 0 = all (default 8Gi)"),
    Flag("runtime", "RUNTIME", "embedded (default) or unix:///PATH of a CRI socket"),
    Flag("images", "WHICH", "of the embedded runtime: host (default), any name runs on the host's files; or imported"),
    Flag("pleg_mode", "MODE", "use of the runtime's events: auto (default), evented, hint or generic"),
    Flag("container_log_max_size", "SIZE", "a container's log is rotated beyond this size (default 10Mi)"),
    Flag("container_log_max_files", "N", "files of one container's log, at least 2 (default 5)", number=True),
    Flag("pod_resources_qps", "N", "unary pod resources calls a second; 0 = no limit (default 100)", number=True),
    Flag("pod_resources_watchers", "N", "pod resources watches open at once (default 4096)", number=True),
    Flag("pod_resources_health_address", "IP:PORT", "serve gRPC health of pod resources here too, for probes"),
    Flag("pod_resources_socket_mode", "MODE", "mode of the pod resources sockets (default 0600)"),
    Flag("pod_resources_socket_group", "GROUP", "group of the pod resources sockets and of their directories"),
    Flag("device_health_rate", "N", "status changes a second of one pod whose devices flap (default 2)", number=True),
    Flag("metrics_port", "PORT", "port of the metrics page on 127.0.0.1; 0 = a free one (default 10255)", number=True),
    Flag(
        "cpu_manager_policy", "POLICY", "none (default) or static: exclusive CPUs for Guaranteed pods with whole CPUs"
    ),
    Flag("cpu_manager_policy_options", "NAME=BOOL,...", "options of the static CPU policy, kubelet's names"),
    Flag("memory_manager_policy", "POLICY", "None (default) or Static: memory of Guaranteed pods on NUMA nodes"),
    Flag("topology_manager_policy", "POLICY", "none (default), best-effort, restricted or single-numa-node"),
    Flag("topology_manager_scope", "SCOPE", "container (default) or pod"),
    Flag("topology_manager_policy_options", "NAME=VALUE,...", "prefer-closest-numa-nodes, max-allowable-numa-nodes"),
    Flag("reserved_cpus", "CPUS", "CPUs kept from exclusive use, like 0-1,8"),
    Flag("reserved_memory", "NODE:TYPE=SIZE,...", "memory of a NUMA node kept from pods; may be repeated", many=True),
    Flag("kube_reserved", "NAME=AMOUNT,...", "kept from pods: cpu, memory, ephemeral-storage"),
    Flag("system_reserved", "NAME=AMOUNT,...", "kept from pods beside that"),
    Flag("sysfs_root", "DIR", "where sys and proc of the machine are (default /)"),
    Flag("metrics_address", "IP", "address of the metrics page (default 127.0.0.1)"),
    Flag("feature_gates", "NAME=BOOL,...", "feature gates to turn off or on; all are on"),
    Flag("log_level", "LEVEL", "debug, info (default), warning or error"),
    Flag("watchers", "N", "API processes to run (default 1)", number=True),
)


FIELDS = frozenset(flag.field for flag in PLANE)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(ROOT.option, metavar=ROOT.metavar, help=ROOT.help, default=argparse.SUPPRESS)


def add_plane_flags(parser: argparse.ArgumentParser, fields: Container[str] = FIELDS) -> None:
    for flag in (flag for flag in PLANE if flag.field in fields):
        kind = int if flag.number else str
        action = "append" if flag.many else "store"
        parser.add_argument(
            flag.option,
            dest=flag.field,
            metavar=flag.metavar,
            help=flag.help,
            type=kind,
            action=action,
            default=argparse.SUPPRESS,
        )


def plane_options(args: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> PlaneOptions:
    """Flags first, then environment, then defaults. Raises Usage."""
    given: dict[str, object] = {}
    for flag in PLANE:
        if hasattr(args, flag.field):
            given[flag.field] = getattr(args, flag.field)
        elif environment.get(flag.variable, "") != "":
            given[flag.field] = _from_environment(flag, environment[flag.variable])
    return msgspec.convert(given, PlaneOptions)


def _from_environment(flag: Flag, text: str) -> object:
    if flag.many:
        return text.split()
    if not flag.number:
        return text
    try:
        return int(text)
    except ValueError:
        raise Usage(f"{flag.variable}={text!r} is no number") from None


def layout_from(args: argparse.Namespace) -> Layout:
    """The paths of the plane a command is about: --root, else NODEPLANE_ROOT, else the default root."""
    root = getattr(args, "root", "") or os.environ.get(ROOT.variable, "")
    kubelet = getattr(args, "kubelet_dir", "") or os.environ.get("NODEPLANE_KUBELET_DIR", "")
    return layout_of(PlaneOptions(root=root, kubelet_dir=kubelet))
