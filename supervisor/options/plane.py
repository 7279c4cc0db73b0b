"""What a person may ask of `up`, and how it becomes the settings every actor reads."""

import os
import re

from protocols.layout import Layout, layout
from protocols.settings import Adopt, PodResources, Settings
from supervisor.errors import Usage
from supervisor.options import values
from supervisor.options.alignment import AlignmentFlags, alignment
from supervisor.options.stores import etcd_files, stores
from supervisor.options.values import LOOPBACK
from supervisor.tree.groups import PlaneShape

DEFAULT_PORT = 6443
DEFAULT_METRICS_PORT = 10255


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
    node_ip: str = ""
    """Empty: loopback, or towards an API elsewhere the address that leads there."""
    node_port: int = 0
    join: str = ""
    """File of a node that joins another plane's API: no control plane here."""
    nodes: int = 1
    store: tuple[str, ...] = ("sqlite",)
    store_port: int = 0
    store_sync: str = "full"
    store_quota_bytes: str = "8Gi"
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
    runtime = values.runtime_endpoint(options.runtime)
    return Settings(
        root=str(where.root),
        kubelet_dir=str(where.kubelet),
        node_name=values.node_name(options.node_name),
        node_ip=values.node_ip(options.node_ip),
        node_port=values.port(options.node_port, "--node-port"),
        port=port,
        bind_address=values.bind_address(options.bind_address),
        api_names=values.api_names(options.api_names, options.bind_address),
        api_url=f"https://{values.reached_at(options.bind_address)}:{port}",
        store_endpoints=main.endpoints,
        store_embedded=main.embedded,
        store_splits=tuple(others),
        etcd_files=etcd_files(options.etcd_cafile, options.etcd_certfile, options.etcd_keyfile, bool(external)),
        etcd_compaction_s=values.seconds(options.etcd_compaction_interval, "--etcd-compaction-interval"),
        leader_elect=values.leader_elect(options.leader_elect, main.embedded),
        store_port=values.port(options.store_port, "--store-port"),
        store_sync=values.one_of(options.store_sync, ("full", "normal"), "--store-sync"),
        store_quota_bytes=values.quota(options.store_quota_bytes, "--store-quota-bytes"),
        runtime_endpoint=runtime or f"unix://{where.runtime_socket}",
        runtime_embedded=not runtime,
        images=values.one_of(options.images, ("host", "imported"), "--images"),
        pleg_mode=values.one_of(options.pleg_mode, ("auto", "evented", "hint", "generic"), "--pleg-mode"),
        container_log_max_size=values.size(options.container_log_max_size, "--container-log-max-size"),
        container_log_max_files=values.at_least(2, options.container_log_max_files, "--container-log-max-files"),
        pod_resources=pod_resources(options),
        device_health_rate=values.at_least(1, options.device_health_rate, "--device-health-rate"),
        adopt=options.adopt,
        metrics_port=values.port(options.metrics_port, "--metrics-port"),
        metrics_address=values.bind_address(options.metrics_address, "--metrics-address"),
        alignment=alignment(options),
        feature_gates=values.feature_gates(options.feature_gates),
        log_level=values.one_of(options.log_level, ("debug", "info", "warning", "error"), "--log-level"),
    )


def shape_of(
    settings: Settings, groups: tuple[str, ...], watchers: int, first_watcher: int = 0, nodes: int = 1
) -> PlaneShape:
    return PlaneShape(
        nodes=nodes,
        groups=groups,
        watchers=watchers,
        first_watcher=first_watcher,
        store_embedded=settings.runs_store,
        runtime_embedded=settings.runtime_embedded,
    )


def pod_resources(options: PlaneOptions) -> PodResources:
    """What clients of the front door may do."""
    mode = options.pod_resources_socket_mode
    if not re.fullmatch(r"0?[0-7]{3}", mode):
        raise Usage(f"--pod-resources-socket-mode {mode!r} is no mode; write it like 0660")
    return PodResources(
        qps=values.at_least(0, options.pod_resources_qps, "--pod-resources-qps"),
        watchers=values.at_least(1, options.pod_resources_watchers, "--pod-resources-watchers"),
        health_address=values.health_address(options.pod_resources_health_address),
        socket_mode=int(mode, 8),
        socket_group=values.group(options.pod_resources_socket_group, "--pod-resources-socket-group"),
    )


def check_port(value: int) -> int:
    return values.port(value, "--port")
