"""Turn spans of a pod into spans of the OpenTelemetry SDK, named by its semantic conventions. Pure.

Attributes with a meaning of their own elsewhere get that name (k8s.*, rpc.*, user.name); all others are `nodeplane.*`.
"""

from collections.abc import Iterator

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from protocols.bounded import BoundedMap
from protocols.messages.trace import Span
from protocols.trace import SpanNode, forest, trace_id
from protocols.trace.waterfall import kind_of

SCOPE = InstrumentationScope("nodeplane")
NAMES = {
    "container": "k8s.container.name",
    "id": "container.id",
    "image": "container.image.name",
    "node": "k8s.node.name",
    "user": "user.name",
}
POD, ERROR = "pod", "error"
PLUGIN = "v1beta1.DevicePlugin"
DRIVER = "DRAPlugin"
MOST_NAMES = 10_000
"""Pods whose names are retained."""
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Mapper:
    """Knows the resources by instance and the names of pods, which not every span carries."""

    def __init__(self, node: str, host: str, version: str) -> None:
        self._common = {"service.namespace": "nodeplane", "service.version": version, "host.name": host}
        self._node = node
        self._resources: dict[str, Resource] = {}
        self._names = BoundedMap[str, str](MOST_NAMES)

    def spans(self, spans: list[Span], wall_offset_ns: int) -> Iterator[ReadableSpan]:
        """Yield the spans of one pod with their parents; one whose parent is not among them keeps its parent's id."""
        for span in spans:
            if POD in span.attributes:
                self._names[span.pod] = span.attributes[POD]
        stack = forest(spans)
        while stack:
            node = stack.pop()
            stack += node.children
            yield self._span(node, wall_offset_ns)

    def _span(self, node: SpanNode, offset: int) -> ReadableSpan:
        it, trace = node.span, trace_id(node.span.pod)
        parent = node.parent.span.id if node.parent else it.parent
        service = _service(it)
        return ReadableSpan(
            name=f"{service}/{it.name}" if service else it.name,
            context=SpanContext(trace, it.id, is_remote=False, trace_flags=SAMPLED),
            parent=SpanContext(trace, parent, is_remote=False, trace_flags=SAMPLED) if parent else None,
            resource=self._resource(it.actor),
            attributes=self._attributes(it, service),
            kind=_kind(it, service),
            status=Status(StatusCode.ERROR, it.attributes[ERROR]) if ERROR in it.attributes else Status(),
            start_time=it.start_ns + offset,
            end_time=it.start_ns + it.duration_ns + offset,
            instrumentation_scope=SCOPE,
        )

    def _resource(self, instance: str) -> Resource:
        resource = self._resources.get(instance)
        if resource is None:
            further = instance.rpartition("/")[0]
            own = {
                "service.name": kind_of(instance),
                "service.instance.id": instance,
                "k8s.node.name": further or self._node,
            }
            resource = self._resources[instance] = Resource({**self._common, **own})
        return resource

    def _attributes(self, span: Span, service: str) -> dict[str, str]:
        namespace, _, name = self._names.get(span.pod, "").partition("/")
        attributes = {"k8s.pod.uid": span.pod}
        if name:
            attributes |= {"k8s.pod.name": name, "k8s.namespace.name": namespace}
        if service:
            attributes |= {"rpc.system": "grpc", "rpc.service": service, "rpc.method": span.name}
        for key, value in span.attributes.items():
            if key == ERROR:
                attributes["error.type"] = "_OTHER"
            elif key != POD:
                attributes[NAMES.get(key, f"nodeplane.{key}")] = value
        return attributes


def _service(span: Span) -> str:
    """Return the gRPC service of a call to a device plugin or DRA driver; empty for other spans."""
    if kind_of(span.actor) != "devices":
        return ""
    if "resource" in span.attributes:
        return PLUGIN
    return DRIVER if "driver" in span.attributes else ""


def _kind(span: Span, service: str) -> SpanKind:
    if service:
        return SpanKind.CLIENT
    return SpanKind.SERVER if "user" in span.attributes else SpanKind.INTERNAL
