"""Make settings, which every actor reads, of options. UsageError names a wrong flag and its valid values."""

import os
import re
from collections.abc import Iterable

from protocols.kinds.table import ALL
from protocols.node.alignment import Alignment, check_alignment
from protocols.process.settings import EtcdFiles, PodResourcesSettings, Settings, StoreSettings
from supervisor.base import values
from supervisor.base.errors import UsageError
from supervisor.base.groups import CONTROL, NODE, PlaneShape
from supervisor.base.options import FLAGS, PlaneOptions, layout_of


def settings_of(options: PlaneOptions, port: int) -> Settings:
    """Return the content of the settings file; `port` is the reserved one. Raises UsageError or SettingsInvalid."""
    where = layout_of(options)
    main, *others = stores(options.store, str(where.store_socket))
    external = [store for store in (main, *others) if not store.embedded]
    advertised = values.advertise_address(options.advertise_address, options.bind_address)
    runtime = values.runtime_endpoint(options.runtime)
    return Settings(
        root=str(where.root),
        kubelet_dir=str(where.kubelet),
        node_name=values.node_name(options.node_name),
        node_ip=values.node_ip(options.node_ip),
        node_port=values.port(options.node_port, "--node-port"),
        healthz_port=values.port(options.healthz_port, "--healthz-port"),
        port=port,
        bind_address=values.bind_address(options.bind_address),
        api_names=values.api_names(options.api_names, options.bind_address, advertised),
        advertise_address=advertised,
        api_url=f"https://{values.reached_at(options.bind_address)}:{port}",
        store_endpoints=main.endpoints,
        store_embedded=main.embedded,
        store_splits=tuple(others),
        etcd_files=etcd_files(options.etcd_cafile, options.etcd_certfile, options.etcd_keyfile, bool(external)),
        etcd_compaction_s=values.seconds(options.etcd_compaction_interval, "--etcd-compaction-interval"),
        node_monitor_grace_s=values.at_least(15, options.node_monitor_grace_period, "--node-monitor-grace-period"),
        leader_elect=values.leader_elect(_chosen(options, "leader_elect"), main.embedded),
        scheduler_seed=values.at_least(0, options.scheduler_seed, "--scheduler-seed"),
        device_binding_timeout_s=values.at_least(1, options.device_binding_timeout, "--device-binding-timeout"),
        store_port=values.port(options.store_port, "--store-port"),
        store_sync=_chosen(options, "store_sync"),
        store_quota_bytes=values.quota(options.store_quota_bytes, "--store-quota-bytes"),
        runtime_endpoint=runtime or f"unix://{where.runtime_socket}",
        runtime_embedded=not runtime,
        images=_chosen(options, "images"),
        pleg_mode=_chosen(options, "pleg_mode"),
        max_pods=values.at_least(1, options.max_pods, "--max-pods"),
        container_log_max_size=values.size(options.container_log_max_size, "--container-log-max-size"),
        container_log_max_files=values.at_least(2, options.container_log_max_files, "--container-log-max-files"),
        allowed_unsafe_sysctls=values.unsafe_sysctls(options.allowed_unsafe_sysctls),
        pod_resources=pod_resources(options),
        claim_health_names=_chosen(options, "claim_health_names"),
        init_container_devices=_chosen(options, "init_container_devices"),
        device_health_rate=values.at_least(1, options.device_health_rate, "--device-health-rate"),
        kubelet_insecure_tls=_chosen(options, "kubelet_insecure_tls") == "true",
        adopt=options.adopt,
        metrics_port=values.port(options.metrics_port, "--metrics-port"),
        metrics_address=values.bind_address(options.metrics_address, "--metrics-address"),
        alignment=alignment(options),
        disabled_versions=values.disabled_versions(options.runtime_config),
        disable_admission_plugins=values.admission_plugins(options.disable_admission_plugins),
        service_cluster_ip_range=values.service_ranges(options.service_cluster_ip_range),
        otlp=values.otlp(options.otlp),
        record=os.path.abspath(os.path.expanduser(options.record)) if options.record else "",
        record_limit=values.record_limit(options.record_limit),
        feature_gates=gates_of(options),
        log_level=_chosen(options, "log_level"),
    )


def shape_of(
    settings: Settings, groups: tuple[str, ...], watchers: int, first_watcher: int = 0, nodes: int = 1
) -> PlaneShape:
    """Return the processes that a plane consists of, with these settings."""
    return PlaneShape(
        nodes=nodes,
        groups=groups,
        watchers=watchers,
        first_watcher=first_watcher,
        store_embedded=settings.runs_store,
        runtime_embedded=settings.runtime_embedded,
        otlp="" if not settings.otlp else NODE if settings.joined else CONTROL,
        recorded=bool(settings.record),
    )


def _chosen(options: PlaneOptions, field: str) -> str:
    """Return the value of a flag that has few. Raises UsageError for another one."""
    flag = FLAGS[field]
    return values.one_of(getattr(options, field), flag.values, flag.option)


def gates_of(options: PlaneOptions) -> dict[str, bool]:
    """Return the feature gates that are set. Raises UsageError."""
    _chosen(options, "feature_gate_skew")
    return values.feature_gates(options.feature_gates)


def pod_resources(options: PlaneOptions) -> PodResourcesSettings:
    """Return the limits and permissions of the pod resources sockets. Raises UsageError."""
    mode = options.pod_resources_socket_mode
    if not re.fullmatch(r"0?[0-7]{3}", mode):
        raise UsageError(f"--pod-resources-socket-mode {mode!r} is no mode; write it like 0660")
    return PodResourcesSettings(
        qps=values.at_least(0, options.pod_resources_qps, "--pod-resources-qps"),
        watchers=values.at_least(1, options.pod_resources_watchers, "--pod-resources-watchers"),
        health_address=values.health_address(options.pod_resources_health_address),
        socket_mode=int(mode, 8),
        socket_group=values.group(options.pod_resources_socket_group, "--pod-resources-socket-group"),
    )


def check_port(value: int) -> int:
    """Check --port."""
    return values.port(value, "--port")


def alignment(options: PlaneOptions) -> Alignment:
    """Return the CPU, memory and topology settings. Raises UsageError or SettingsInvalid."""
    return check_alignment(
        Alignment(
            cpuManagerPolicy=options.cpu_manager_policy,
            cpuManagerPolicyOptions=pairs(options.cpu_manager_policy_options, "--cpu-manager-policy-options"),
            memoryManagerPolicy=options.memory_manager_policy,
            topologyManagerPolicy=options.topology_manager_policy,
            topologyManagerScope=options.topology_manager_scope,
            topologyManagerPolicyOptions=pairs(
                options.topology_manager_policy_options, "--topology-manager-policy-options"
            ),
            reservedSystemCPUs=options.reserved_cpus,
            reservedMemory=reserved_memory(options.reserved_memory),
            kubeReserved=pairs(options.kube_reserved, "--kube-reserved"),
            systemReserved=pairs(options.system_reserved, "--system-reserved"),
            sysfsRoot=values.sysfs_root(options.sysfs_root, options.reserved_cpus),
        )
    )


def pairs(text: str, flag: str) -> dict[str, str]:
    """Parse `name=value,other=value`. Raises UsageError."""
    parsed: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name or not value or name in parsed:
            raise UsageError(f"{flag} {part!r} is no NAME=VALUE, or names something twice")
        parsed[name] = value
    return parsed


def reserved_memory(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse texts of `NODE:memory=SIZE,hugepages-SIZE=SIZE`, several in one separated by `;`. Raises UsageError."""
    sizes_by_node: dict[str, dict[str, str]] = {}
    for text in (part for given in texts for part in given.split(";") if part):
        node, colon, sizes = text.partition(":")
        if not colon or node in sizes_by_node:
            raise UsageError(f"--reserved-memory {text!r} is no NODE:TYPE=SIZE,..., or names a node twice")
        sizes_by_node[node] = pairs(sizes, "--reserved-memory")
    return sizes_by_node


ENDPOINT = re.compile(r"[^\s,/:\[\]]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
SCHEME = "etcd://"
EMBEDDED = "sqlite"
NAMES = {f"{row.group}/{row.plural}" if row.group else row.plural: row.full_name for row in ALL}
"""Resources as users name them here and in kube-apiserver's `--etcd-servers-overrides`: `events`, `group/resource`."""


def stores(values: Iterable[str], socket: str) -> tuple[StoreSettings, ...]:
    """Parse --store: the main store, then those of single resources. `socket` is that of the embedded store."""
    main: list[StoreSettings] = []
    others: dict[StoreSettings, list[str]] = {}
    for value in values:
        names, sign, where = value.rpartition("=")
        store = _store(where, value, socket)
        if sign:
            others.setdefault(store, []).extend(_resource(name) for name in names.split(","))
        else:
            main.append(store)
    if len(main) > 1:
        raise UsageError(
            "--store is given more than once for everything; others must name resources: --store events=..."
        )
    named = [name for names in others.values() for name in names]
    twice = next((name for name in named if named.count(name) > 1), "")
    if twice:
        raise UsageError(f"--store names {twice} more than once")
    splits = (StoreSettings(endpoints=s.endpoints, embedded=s.embedded, resources=tuple(n)) for s, n in others.items())
    return (*(main or [_store(EMBEDDED, EMBEDDED, socket)]), *splits)


def etcd_files(ca: str, cert: str, key: str, external: bool) -> EtcdFiles:
    """Return the TLS files for etcd. Raises UsageError if they do not fit together or cannot be read."""
    given = {"--etcd-cafile": ca, "--etcd-certfile": cert, "--etcd-keyfile": key}
    if not any(given.values()):
        return EtcdFiles()
    if not external:
        raise UsageError(f"{', '.join(flag for flag, path in given.items() if path)}: no --store is an etcd; name one")
    if bool(cert) != bool(key):
        raise UsageError("--etcd-certfile and --etcd-keyfile go together; give both or none")
    if not ca:
        raise UsageError("--etcd-certfile needs --etcd-cafile: without it the connection is not TLS")
    return EtcdFiles(
        **{flag.removeprefix("--etcd-").removesuffix("file"): _readable(flag, p) for flag, p in given.items()}
    )


def _readable(flag: str, path: str) -> str:
    if not path:
        return ""
    absolute = os.path.abspath(os.path.expanduser(path))
    try:
        with open(absolute, "rb") as file:
            head = file.read(11)
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}") from None
    if head != b"-----BEGIN ":
        raise UsageError(f"{flag} {path} is no PEM file")
    return absolute


def _store(where: str, whole: str, socket: str) -> StoreSettings:
    if where == EMBEDDED:
        return StoreSettings(endpoints=(f"unix:{socket}",), embedded=True)
    if not where.startswith(SCHEME):
        raise UsageError(f"--store {whole!r} is no store; use sqlite or etcd://HOST:PORT[,HOST:PORT...]")
    targets = tuple(where.removeprefix(SCHEME).rstrip("/").split(","))
    for target in targets:
        if not ENDPOINT.fullmatch(target) or int(target.rpartition(":")[2]) > 65535:
            raise UsageError(f"--store: {target!r} is no HOST:PORT")
    return StoreSettings(endpoints=targets)


def _resource(name: str) -> str:
    resource = NAMES.get(name.removeprefix("/"))
    if resource is None:
        raise UsageError(f"--store {name}=...: no resource is called {name!r}; there are {', '.join(NAMES)}")
    return resource
