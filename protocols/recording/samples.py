"""Samples of metrics that the console plots, and that a recording has: their names by process, read from its page.

A sample is its text on the page, such as `scheduler_pending_pods{queue="active"}`, with its value.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

Labels = dict[str, str]

SERVER = "apiserver"
"""Prefix of the names of API processes."""
SERVER_NAMES = frozenset(
    (
        "apiserver_longrunning_requests",
        "apiserver_request_total",
        "apiserver_watch_list_duration_seconds_count",
        "nodeplane_replica_window",
    )
)
NAMES = {
    "cri": frozenset(("kubelet_runtime_operations_total",)),
    "pleg": frozenset(
        (
            "evented_pleg_notifications_received",
            "kube_pod_missed_events",
            "kubelet_pleg_relist_duration_seconds_bucket",
            "kubelet_pleg_relist_duration_seconds_count",
            "nodeplane_event_latency_seconds_bucket",
        )
    ),
    "podworker": frozenset(
        (
            "kubelet_pod_start_duration_seconds_bucket",
            "kubelet_pod_status_sync_duration_seconds_bucket",
            "kubelet_pod_status_sync_duration_seconds_count",
        )
    ),
    "scheduler": frozenset(
        ("scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds_bucket")
    ),
    "store": frozenset(("nodeplane_store_commits_total", "nodeplane_store_revision")),
    "watchcache": frozenset(("apiserver_storage_events_received_total", "etcd_bookmark_total")),
}
"""By process, those with small pages."""

MAX_PAGE_BYTES = 32 * 1024 * 1024
PARSED = 8192
"""Samples whose labels are retained; a plane has fewer."""
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def names_of(instance: str) -> frozenset[str]:
    """Return the names of the samples that are read from a process's page; empty for one that is not read."""
    return SERVER_NAMES if instance.startswith(SERVER) else NAMES.get(instance, frozenset())


def samples(text: str, names: Collection[str]) -> Iterator[tuple[str, float]]:
    """Yield the samples of a page that have these names; lines of another shape are left out."""
    starts = tuple(names)
    for line in text[:MAX_PAGE_BYTES].splitlines():
        if not line.startswith(starts) or (match := _LINE.match(line)) is None or match[1] not in names:
            continue
        try:
            yield match[1] + (match[2] or ""), float(match[3])
        except ValueError:
            continue


@lru_cache(PARSED)
def parsed(sample: str) -> tuple[str, Labels]:
    """Return name and labels of a sample; the labels are shared: read them only."""
    name, _, labels = sample.partition("{")
    return name, dict(_LABEL.findall(labels))
