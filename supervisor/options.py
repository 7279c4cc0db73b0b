"""What a person may ask of `up`, and how it becomes the settings every actor reads."""

import grp
import ipaddress
import os
import re
import socket

from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.layout import Layout, layout
from protocols.settings import GATES, Adopt, PodResources, Settings
from supervisor.alignment import AlignmentFlags, alignment
from supervisor.errors import Usage
from supervisor.groups import PlaneShape
from supervisor.stores import etcd_files, stores

DEFAULT_PORT = 6443
LOOPBACK = "127.0.0.1"
DEFAULT_METRICS_PORT = 10255
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class PlaneOptions(AlignmentFlags, frozen=True, kw_only=True):
    """The flags of `up` and of a single group, with their defaults."""

    root: str = ""
    """Empty: /var/lib/nodeplane for root, else ~/.local/state/nodeplane."""
    port: int = DEFAULT_PORT
    bind_address: str = LOOPBACK
    api_names: str = ""
    kubelet_dir: str = ""
    node_name: str = ""
    """Empty: the host's name."""
    store: tuple[str, ...] = ("sqlite",)
    store_port: int = 0
    store_sync: str = "full"
    etcd_cafile: str = ""
    etcd_certfile: str = ""
    etcd_keyfile: str = ""
    etcd_compaction_interval: int = 300
    leader_elect: str = "auto"
    runtime: str = "embedded"
    images: str = "host"
    pleg_mode: str = "auto"
    container_log_max_size: str = "10Mi"
    container_log_max_files: int = 5
    pod_resources_qps: int = 100
    pod_resources_watchers: int = 4096
    pod_resources_health_address: str = ""
    pod_resources_socket_mode: str = "0600"
    pod_resources_socket_group: str = ""
    device_health_rate: int = 2
    metrics_port: int = DEFAULT_METRICS_PORT
    metrics_address: str = LOOPBACK
    adopt: Adopt | None = None
    """Serve the pod resources of the kubelet that runs here, and nothing else."""
    feature_gates: str = ""
    log_level: str = "info"
    watchers: int = 1


def default_root() -> str:
    return "/var/lib/nodeplane" if os.geteuid() == 0 else os.path.expanduser("~/.local/state/nodeplane")


def layout_of(options: PlaneOptions) -> Layout:
    """Paths below the root; raises SettingsInvalid when sockets would not fit there."""
    root = os.path.abspath(os.path.expanduser(options.root or default_root()))
    kubelet = os.path.abspath(os.path.expanduser(options.kubelet_dir)) if options.kubelet_dir else ""
    made = layout(root, kubelet)
    made.check_socket_paths()
    return made


def settings_of(options: PlaneOptions, port: int) -> Settings:
    """The settings file's content; `port` is the one really reserved. Raises Usage."""
    where = layout_of(options)
    main, *others = stores(options.store, str(where.store_socket))
    external = [store for store in (main, *others) if not store.embedded]
    runtime = runtime_endpoint(options.runtime)
    return Settings(
        root=str(where.root),
        kubelet_dir=str(where.kubelet),
        node_name=node_name(options.node_name),
        port=port,
        bind_address=bind_address(options.bind_address),
        api_names=api_names(options.api_names, options.bind_address),
        api_url=f"https://{reached_at(options.bind_address)}:{port}",
        store_endpoints=main.endpoints,
        store_embedded=main.embedded,
        store_splits=tuple(others),
        etcd_files=etcd_files(options.etcd_cafile, options.etcd_certfile, options.etcd_keyfile, bool(external)),
        etcd_compaction_s=_seconds(options.etcd_compaction_interval, "--etcd-compaction-interval"),
        leader_elect=leader_elect(options.leader_elect, main.embedded),
        store_port=_port(options.store_port, "--store-port"),
        store_sync=_one_of(options.store_sync, ("full", "normal"), "--store-sync"),
        runtime_endpoint=runtime or f"unix://{where.runtime_socket}",
        runtime_embedded=not runtime,
        images=_one_of(options.images, ("host", "imported"), "--images"),
        pleg_mode=_one_of(options.pleg_mode, ("auto", "evented", "hint", "generic"), "--pleg-mode"),
        container_log_max_size=_size(options.container_log_max_size, "--container-log-max-size"),
        container_log_max_files=_at_least(2, options.container_log_max_files, "--container-log-max-files"),
        pod_resources=pod_resources(options),
        device_health_rate=_at_least(1, options.device_health_rate, "--device-health-rate"),
        adopt=options.adopt,
        metrics_port=_port(options.metrics_port, "--metrics-port"),
        metrics_address=bind_address(options.metrics_address, "--metrics-address"),
        alignment=alignment(options),
        feature_gates=feature_gates(options.feature_gates),
        log_level=_one_of(options.log_level, ("debug", "info", "warning", "error"), "--log-level"),
    )


def shape_of(settings: Settings, groups: tuple[str, ...], watchers: int, first_watcher: int = 0) -> PlaneShape:
    return PlaneShape(
        groups=groups,
        watchers=watchers,
        first_watcher=first_watcher,
        store_embedded=settings.runs_store,
        runtime_embedded=settings.runtime_embedded,
    )


def bind_address(value: str, flag: str = "--bind-address") -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise Usage(f"{flag} {value!r} is no IP address; use 0.0.0.0 for all of this machine's") from None


def reached_at(address: str) -> str:
    """The host part of URLs for a server bound there, as this machine's own clients reach it."""
    found = ipaddress.ip_address(bind_address(address))
    if found.is_unspecified:
        return LOOPBACK if found.version == 4 else "[::1]"
    return str(found) if found.version == 4 else f"[{found}]"


def api_names(text: str, bound: str) -> tuple[str, ...]:
    """What the certificate must name beside what it always does."""
    names = list(filter(None, text.split(",")))
    for name in names:
        if not NODE_NAME.fullmatch(name) and not _is_address(name):
            raise Usage(f"--api-names: {name!r} is no DNS name or IP address")
    bound = bind_address(bound)
    own = () if ipaddress.ip_address(bound).is_unspecified or bound == LOOPBACK else (bound,)
    return (*own, *names)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def runtime_endpoint(value: str) -> str:
    """Target of an external CRI runtime, or "" for the embedded one."""
    if value == "embedded":
        return ""
    if not value.startswith("unix:///"):
        raise Usage(f"--runtime {value!r} is no runtime; use embedded or unix:///PATH/OF/ITS.sock")
    return value


def node_name(value: str) -> str:
    name = value or socket.gethostname().lower()
    if not NODE_NAME.fullmatch(name) or len(name) > 253:
        raise Usage(f"node name {name!r} is no DNS name (lower case letters, digits, - and .); give --node-name")
    return name


def feature_gates(text: str) -> dict[str, bool]:
    """`Name=false,Other=true` as a mapping."""
    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in GATES:
            raise Usage(f"no feature gate is called {name!r}; there are {', '.join(GATES)}")
        if value.lower() not in ("true", "false"):
            raise Usage(f"feature gate {name}={value}: the value is true or false")
        gates[name] = value.lower() == "true"
    return gates


def leader_elect(value: str, alone: bool) -> bool:
    """`auto`: only where other control planes may use the same store."""
    return _one_of(value, ("auto", "true", "false"), "--leader-elect") == "true" or (value == "auto" and not alone)


def pod_resources(options: PlaneOptions) -> PodResources:
    """What clients of the front door may do."""
    mode = options.pod_resources_socket_mode
    if not re.fullmatch(r"0?[0-7]{3}", mode):
        raise Usage(f"--pod-resources-socket-mode {mode!r} is no mode; write it like 0660")
    return PodResources(
        qps=_at_least(0, options.pod_resources_qps, "--pod-resources-qps"),
        watchers=_at_least(1, options.pod_resources_watchers, "--pod-resources-watchers"),
        health_address=health_address(options.pod_resources_health_address),
        socket_mode=int(mode, 8),
        socket_group=_group(options.pod_resources_socket_group, "--pod-resources-socket-group"),
    )


def health_address(text: str) -> str:
    """`IP:PORT`, or nothing."""
    if not text:
        return ""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise Usage(f"--pod-resources-health-address {text!r} is no IP:PORT")
    bound = bind_address(host.strip("[]"), "--pod-resources-health-address")
    return f"[{bound}]:{port}" if ":" in bound else f"{bound}:{port}"


def check_port(value: int) -> int:
    return _port(value, "--port")


def _group(name: str, flag: str) -> str:
    try:
        return name if not name or name.isdecimal() else str(grp.getgrnam(name).gr_gid)
    except KeyError:
        raise Usage(f"{flag} {name!r} is no group of this machine; use another name, or its number") from None


def _port(value: int, flag: str) -> int:
    if not 0 <= value <= 65535:
        raise Usage(f"{flag} {value} is no port; use 0 to 65535 (0 = a free one)")
    return value


def _size(text: str, flag: str) -> int:
    try:
        size = parse_quantity(text).value()
    except QuantityInvalid:
        size = 0
    if size <= 0:
        raise Usage(f"{flag} {text!r} is no size; write it like 10Mi or 500k")
    return size


def _at_least(least: int, value: int, flag: str) -> int:
    if value < least:
        raise Usage(f"{flag} {value} is too few; use {least} or more")
    return value


def _seconds(value: int, flag: str) -> int:
    if value < 0:
        raise Usage(f"{flag} {value} is no number of seconds; use 0 (never) or more")
    return value


def _one_of(value: str, allowed: tuple[str, ...], flag: str) -> str:
    if value not in allowed:
        raise Usage(f"{flag} {value!r} is none of {', '.join(allowed)}")
    return value
