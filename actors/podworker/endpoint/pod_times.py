"""kube_pod_start_time and kube_pod_completion_time of the node's pods, to compare with the runtime's log (KEP-3386)."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from protocols.actor.metrics import labelled
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kube.times import parse_time
from protocols.process.families import GaugeFamily

LABELS = ("namespace", "pod", "uid")
STARTED = GaugeFamily("kube_pod_start_time", "Unix time of a pod's `status.startTime`.", LABELS)
COMPLETED = GaugeFamily(
    "kube_pod_completion_time", "Unix time at which the last ended container of a pod ended.", LABELS
)


class PodTimes(Collector):
    """Names, labels and values of kube-state-metrics. Computed at scrape time; bounded by the pods of the node."""

    def __init__(self, pods: Mapping[str, views.Pod]) -> None:
        self._pods = pods

    def collect(self) -> Iterator[Metric]:
        started = labelled(STARTED)
        completed = labelled(COMPLETED)
        for pod in list(self._pods.values()):
            metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
            labels = [str(metadata.get(key) or "") for key in ("namespace", "name", "uid")]
            if (start := seconds(status.get("startTime"))) is not None:
                started.add_metric(labels, start)
            if (end := completion(status)) is not None:
                completed.add_metric(labels, end)
        yield started
        yield completed


def completion(status: views.PodStatus) -> float | None:
    """Return when the last ended container of a pod ended; None while none has."""
    ended = ((entry.get("state") or {}).get("terminated") or {} for entry in status.get("containerStatuses") or ())
    times = [at for one in ended if (at := seconds(one.get("finishedAt"))) is not None]
    return max(times, default=None)


def seconds(text: object) -> float | None:
    """Parse a time of the API; None if there is none."""
    try:
        return parse_time(text) if isinstance(text, str) and text else None
    except NodeplaneError:
        return None
