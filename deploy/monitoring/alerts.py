"""The alerts of a plane: conditions on recorded figures, for how long, and what to do."""

from typing import NamedTuple


class Alert(NamedTuple):
    name: str
    query: str
    hold: str
    """Time for which the condition must hold."""
    severity: str
    summary: str
    action: str


CRITICAL, WARNING, INFO = "critical", "warning", "info"

ALERTS = (
    Alert(
        "NodeplaneDown",
        'up{job="nodeplane"} == 0',
        "1m",
        CRITICAL,
        "The metrics page does not answer.",
        "The plane has ended, or its machine is away: `nodeplane status` there, `journalctl -u 'nodeplane*'`.",
    ),
    Alert(
        "NodeplaneActorRestarted",
        "actor:nodeplane_actor_restarts:increase5m > 0",
        "0s",
        INFO,
        "{{ $labels.actor }} restarted.",
        "Nothing, if that was on purpose; else `nodeplane status` and `nodeplane logs ACTOR` have the reason.",
    ),
    Alert(
        "NodeplaneActorRestarting",
        "actor:nodeplane_actor_restarts:increase5m > 3",
        "1m",
        WARNING,
        "{{ $labels.actor }} restarts again and again.",
        "Read the end of its log: `nodeplane logs ACTOR`. A plane ends when an actor that it needs crashes 30 times in "
        "a minute.",
    ),
    Alert(
        "NodeplaneActorDown",
        "nodeplane_actor_up == 0",
        "1m",
        CRITICAL,
        "{{ $labels.actor }} does not serve.",
        "`nodeplane status` shows its state and reason; `nodeplane restart ACTOR` starts it anew.",
    ),
    Alert(
        "NodeplaneProcessSilent",
        "instance:nodeplane_unscraped_processes:sum > 0",
        "2m",
        WARNING,
        "A process does not return its metrics in a second.",
        "`nodeplane top` shows who is busy, `nodeplane_scrape_up == 0` which one it is.",
    ),
    Alert(
        "NodeplaneCertificatesExpire",
        "instance:nodeplane_certificates_left_seconds:min < 30 * 86400",
        "1h",
        WARNING,
        "A certificate expires in {{ $value | humanizeDuration }}.",
        "Start the plane again: a start renews certificates that expire in 60 days. A joined node needs a new file "
        "(`nodeplane node-config`).",
    ),
    Alert(
        "NodeplaneStreamStale",
        "actor:nodeplane_bus_silence_seconds:max > 30",
        "1m",
        WARNING,
        "{{ $labels.actor }} has not heard of the owner of a stream for {{ $value | humanizeDuration }}.",
        "`nodeplane status --streams` names the stream and its owner; look at the owner.",
    ),
    Alert(
        "NodeplaneStreamUnsynced",
        "actor:nodeplane_bus_unsynced:sum > 0",
        "2m",
        WARNING,
        "{{ $labels.actor }} is not up to date on {{ $value }} streams.",
        "`nodeplane status --streams` names them; their owner is down, or too slow to send a snapshot.",
    ),
    Alert(
        "NodeplaneReplicaBehind",
        "actor:nodeplane_replica_behind_revisions:max > 0",
        "2m",
        WARNING,
        "{{ $labels.actor }} is {{ $value }} revisions behind the store.",
        "The watch cache hangs, or the store does not send: `nodeplane logs watchcache`.",
    ),
    Alert(
        "NodeplaneApiErrors",
        "instance:apiserver_request_errors:ratio_rate5m > 0.05",
        "5m",
        WARNING,
        "{{ $value | humanizePercentage }} of the API's answers are server errors.",
        "`nodeplane status`: the store or the watch cache is away, or the disk is full.",
    ),
    Alert(
        "NodeplaneWatchCacheRelists",
        "instance:apiserver_watch_cache_initializations:increase5m > 3",
        "5m",
        WARNING,
        "The watch cache lists a resource from the store again and again.",
        "Its watches of the store break, or revisions are compacted before it reads them: `nodeplane logs watchcache`.",
    ),
    Alert(
        "NodeplaneWatchesExpire",
        "instance:nodeplane_watch_expired:increase5m > 10",
        "5m",
        INFO,
        "Clients come back with revisions that are too old, and list.",
        "Clients are away for longer than the window of changes, or watch without bookmarks.",
    ),
    Alert(
        "NodeplaneStoreNearQuota",
        "instance:nodeplane_store_quota:ratio > 0.9",
        "5m",
        CRITICAL,
        "The store has used {{ $value | humanizePercentage }} of its quota; at 100 % it rejects writes.",
        "Delete objects and compact, or raise the quota: docs/reference/store.md.",
    ),
    Alert(
        "NodeplaneStoreCommitsFail",
        "instance:nodeplane_store_commit_failures:increase5m > 0",
        "0s",
        CRITICAL,
        "Commits of the store fail.",
        "The disk is full or faulty: `nodeplane logs store`.",
    ),
    Alert(
        "NodeplanePlegUnhealthy",
        "instance:nodeplane_pleg_age:ratio > 1",
        "0s",
        CRITICAL,
        "Pods have not been listed for longer than the limit; the node is not ready.",
        "The runtime does not answer: `nodeplane logs pleg`, then the runtime's own log.",
    ),
    Alert(
        "NodeplanePlegSlow",
        "instance:kubelet_pleg_relist_duration_seconds:p99_5m >= 10",
        "5m",
        WARNING,
        "Listing all pods takes {{ $value | humanizeDuration }}.",
        "The runtime is overloaded: see the durations of its operations.",
    ),
    Alert(
        "NodeplanePodEventsMissed",
        # CRI-O reports no removals.
        'cause_transition:kube_pod_missed_events:increase5m{cause="runtime",transition!="deleted"} > 0',
        "0s",
        WARNING,
        "The runtime did not report that containers had {{ $labels.transition }}; a list showed it.",
        "Repair the runtime; until then `--pleg-mode generic` lists all pods each second and needs no events.",
    ),
    Alert(
        "NodeplaneUnhealthyDeviceInUse",
        'resource_health:nodeplane_health_devices:sum{health="Unhealthy"} > 0',
        "1m",
        CRITICAL,
        "Pods hold {{ $value }} unhealthy devices of {{ $labels.resource }}.",
        "`nodeplane devices` names devices and pods; docs/how-to/react-to-broken-devices.md.",
    ),
    Alert(
        "NodeplaneDevicesNotHealthy",
        "resource:nodeplane_devices_not_healthy:count > 0",
        "5m",
        WARNING,
        "{{ $value }} devices of {{ $labels.resource_name }} are unhealthy or unknown.",
        "`nodeplane devices`: a plugin that is gone makes its devices Unknown.",
    ),
    Alert(
        "NodeplanePodsUnschedulable",
        'queue:scheduler_pending_pods:sum{queue="unschedulable"} > 0',
        "15m",
        INFO,
        "{{ $value }} pods fit on no node.",
        "`kubectl events --types=Warning` has the reason of each; `nodeplane devices --claim FILE` explains claims.",
    ),
)
