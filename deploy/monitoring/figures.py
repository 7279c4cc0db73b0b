"""The figures of a plane, each with its query: panels of the board, and recording rules where an alert needs them.

In a query, WINDOW stands for the window of a rate: RULE_WINDOW in a recording rule, the dashboard's own in a panel.
SELECT stands for the planes that a panel shows; a rule has all.
"""

from typing import NamedTuple

RULE_WINDOW = "5m"


class Figure(NamedTuple):
    row: str
    title: str
    query: str
    legend: str
    """Labels of a line in its panel, in Grafana's {{label}} form."""
    unit: str = "short"
    """Unit of Grafana: short, s, bytes, percentunit, ops, cores."""
    record: str = ""
    """Name of the recording rule, level:metric:operation; empty if no alert needs one."""


def quantile(share: float, histogram: str, *labels: str, where: str = "") -> str:
    """Return the query of a quantile of a histogram by instance and these labels."""
    by = ", ".join(("instance", *labels, "le"))
    select = f"SELECT, {where}" if where else "SELECT"
    return f"histogram_quantile({share}, sum by ({by}) (rate({histogram}_bucket{{{select}}}[WINDOW])))"


def per_second(counter: str, *labels: str) -> str:
    by = ", ".join(("instance", *labels))
    return f"sum by ({by}) (rate({counter}{{SELECT}}[WINDOW]))"


PLANE, STREAMS, API, STORE, NODE, DEVICES, SCHEDULING = (
    "Processes",
    "Streams",
    "API",
    "Store",
    "Node",
    "Devices",
    "Scheduling",
)

FIGURES = (
    Figure(PLANE, "Actors that serve", "sum by (instance) (nodeplane_actor_up{SELECT})", "{{instance}}"),
    Figure(
        PLANE,
        "Restarts",
        "sum by (instance, actor) (increase(nodeplane_actor_restarts_total{SELECT}[WINDOW]))",
        "{{instance}} {{actor}}",
        record="actor:nodeplane_actor_restarts:increase5m",
    ),
    Figure(
        PLANE,
        "Processes that return no metrics",
        "sum by (instance) (1 - nodeplane_scrape_up{SELECT})",
        "{{instance}}",
        record="instance:nodeplane_unscraped_processes:sum",
    ),
    Figure(
        PLANE,
        "CPU",
        "sum by (instance, actor) (rate(process_cpu_seconds_total{SELECT}[WINDOW]))",
        "{{instance}} {{actor}}",
        "cores",
    ),
    Figure(
        PLANE,
        "Resident memory, shared pages included",
        "sum by (instance, actor) (process_resident_memory_bytes{SELECT})",
        "{{instance}} {{actor}}",
        "bytes",
    ),
    Figure(
        PLANE,
        "Until the first certificate expires",
        "min by (instance) (nodeplane_certificates_expiration_timestamp_seconds{SELECT}) - time()",
        "{{instance}}",
        "s",
        record="instance:nodeplane_certificates_left_seconds:min",
    ),
    Figure(
        STREAMS,
        "Silence of the owner",
        "max by (instance, actor) (nodeplane_bus_silence_seconds{SELECT})",
        "{{instance}} {{actor}}",
        "s",
        record="actor:nodeplane_bus_silence_seconds:max",
    ),
    Figure(
        STREAMS,
        "Streams that are not synced",
        "sum by (instance, actor) (1 - nodeplane_bus_synced{SELECT})",
        "{{instance}} {{actor}}",
        record="actor:nodeplane_bus_unsynced:sum",
    ),
    Figure(STREAMS, "Syncs", per_second("nodeplane_bus_syncs_total", "actor"), "{{instance}} {{actor}}", "ops"),
    Figure(
        STREAMS,
        "Messages dropped",
        per_second("nodeplane_bus_dropped_total", "actor", "reason"),
        "{{instance}} {{actor}} {{reason}}",
        "ops",
    ),
    Figure(
        STREAMS,
        "Replicas behind the store",
        "max by (instance, actor) (nodeplane_replica_behind_revisions{SELECT})",
        "{{instance}} {{actor}}",
        record="actor:nodeplane_replica_behind_revisions:max",
    ),
    Figure(API, "Requests", per_second("apiserver_request_total", "code"), "{{instance}} {{code}}", "ops"),
    Figure(
        API,
        "Requests that failed in the server",
        '(sum by (instance) (rate(apiserver_request_total{SELECT, code=~"5.."}[WINDOW])) or '
        "0 * sum by (instance) (rate(apiserver_request_total{SELECT}[WINDOW]))) / "
        "sum by (instance) (rate(apiserver_request_total{SELECT}[WINDOW]))",
        "{{instance}}",
        "percentunit",
        record="instance:apiserver_request_errors:ratio_rate5m",
    ),
    Figure(
        API,
        "Time to answer, 99th percentile",
        quantile(0.99, "apiserver_request_duration_seconds", "verb", where='verb!~"WATCH|CONNECT|PROXY"'),
        "{{instance}} {{verb}}",
        "s",
    ),
    Figure(
        API, "Open watches", 'sum by (instance) (apiserver_longrunning_requests{SELECT, verb="WATCH"})', "{{instance}}"
    ),
    Figure(
        API,
        "Lists of the store by the watch cache",
        "max by (instance) (increase(apiserver_watch_cache_initializations_total{SELECT}[WINDOW]))",
        "{{instance}}",
        record="instance:apiserver_watch_cache_initializations:increase5m",
    ),
    Figure(
        API,
        "Watches rejected as too old, so that their clients list",
        "sum by (instance) (increase(nodeplane_watch_expired_total{SELECT}[WINDOW]))",
        "{{instance}}",
        record="instance:nodeplane_watch_expired:increase5m",
    ),
    Figure(
        API,
        "Watches ended because the client is slow",
        "sum by (instance) (increase(apiserver_terminated_watchers_total{SELECT}[WINDOW]))",
        "{{instance}}",
    ),
    Figure(STORE, "Bytes in use", "nodeplane_store_used_bytes{SELECT}", "{{instance}}", "bytes"),
    Figure(
        STORE,
        "Share of the quota",
        "max by (instance) (nodeplane_store_used_bytes{SELECT} / (nodeplane_store_quota_bytes{SELECT} > 0))",
        "{{instance}}",
        "percentunit",
        record="instance:nodeplane_store_quota:ratio",
    ),
    Figure(STORE, "Commits", per_second("nodeplane_store_commits_total"), "{{instance}}", "ops"),
    Figure(
        STORE,
        "Commits that failed",
        "sum by (instance) (increase(nodeplane_store_commit_failures_total{SELECT}[WINDOW]))",
        "{{instance}}",
        record="instance:nodeplane_store_commit_failures:increase5m",
    ),
    Figure(
        STORE,
        "Requests to the store, 99th percentile",
        quantile(0.99, "etcd_request_duration_seconds", "operation"),
        "{{instance}} {{operation}}",
        "s",
    ),
    Figure(NODE, "Running pods", "sum by (instance) (kubelet_running_pods{SELECT})", "{{instance}}"),
    Figure(
        NODE,
        "Age of the last relist, as share of its limit",
        "max by (instance) ((time() - kubelet_pleg_last_seen_seconds{SELECT}) / "
        "on (instance) nodeplane_pleg_limit_seconds{SELECT})",
        "{{instance}}",
        "percentunit",
        record="instance:nodeplane_pleg_age:ratio",
    ),
    Figure(
        NODE,
        "Relists, 99th percentile",
        quantile(0.99, "kubelet_pleg_relist_duration_seconds"),
        "{{instance}}",
        "s",
        record="instance:kubelet_pleg_relist_duration_seconds:p99_5m",
    ),
    Figure(
        NODE,
        "Events that were missed",
        "sum by (instance, cause, transition) (increase(kube_pod_missed_events{SELECT}[WINDOW]))",
        "{{instance}} {{cause}} {{transition}}",
        record="cause_transition:kube_pod_missed_events:increase5m",
    ),
    Figure(
        NODE,
        "From seen to running, 99th percentile",
        quantile(0.99, "kubelet_pod_start_duration_seconds"),
        "{{instance}}",
        "s",
    ),
    Figure(
        NODE,
        "Runtime operations",
        per_second("kubelet_runtime_operations_total", "operation_type"),
        "{{instance}} {{operation_type}}",
        "ops",
    ),
    Figure(
        DEVICES,
        "Healthy devices",
        "count by (instance, resource_name) (nodeplane_device_health{SELECT} == 1) or "
        "0 * count by (instance, resource_name) (nodeplane_device_health{SELECT})",
        "{{instance}} {{resource_name}}",
    ),
    Figure(
        DEVICES,
        "Devices that are not healthy",
        "count by (instance, resource_name) (nodeplane_device_health{SELECT} < 1) or "
        "0 * count by (instance, resource_name) (nodeplane_device_health{SELECT})",
        "{{instance}} {{resource_name}}",
        record="resource:nodeplane_devices_not_healthy:count",
    ),
    Figure(
        DEVICES,
        "Devices in use, by health",
        "sum by (instance, resource, health) (nodeplane_health_devices{SELECT})",
        "{{instance}} {{resource}} {{health}}",
        record="resource_health:nodeplane_health_devices:sum",
    ),
    Figure(
        DEVICES,
        "Allocate, 99th percentile",
        quantile(0.99, "kubelet_device_plugin_alloc_duration_seconds", "resource_name"),
        "{{instance}} {{resource_name}}",
        "s",
    ),
    Figure(
        DEVICES,
        "From a health report to the pod's status, 99th percentile",
        quantile(0.99, "nodeplane_device_health_status_seconds"),
        "{{instance}}",
        "s",
    ),
    Figure(
        DEVICES,
        "Claims in use",
        'sum by (instance) (dra_resource_claims_in_use{SELECT, driver_name="<any>"})',
        "{{instance}}",
    ),
    Figure(
        SCHEDULING,
        "Pods that wait",
        "sum by (instance, queue) (scheduler_pending_pods{SELECT})",
        "{{instance}} {{queue}}",
        record="queue:scheduler_pending_pods:sum",
    ),
    Figure(
        SCHEDULING,
        "Attempts",
        per_second("scheduler_schedule_attempts_total", "result"),
        "{{instance}} {{result}}",
        "ops",
    ),
    Figure(
        SCHEDULING,
        "Attempts, 99th percentile",
        quantile(0.99, "scheduler_scheduling_attempt_duration_seconds"),
        "{{instance}}",
        "s",
    ),
)


def rule_query(figure: Figure) -> str:
    """Return the query of the recording rule."""
    return figure.query.replace("{SELECT, ", "{").replace("{SELECT}", "").replace("WINDOW", RULE_WINDOW)


def panel_query(figure: Figure) -> str:
    """Return the query of the panel, with Grafana's variables."""
    return figure.query.replace("SELECT", 'instance=~"$instance"').replace("WINDOW", "$__rate_interval")
