"""Spans on their way to an OpenTelemetry receiver."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanKind, StatusCode

from actors.otlp.exporter import Exporter
from actors.otlp.mapping import Mapper
from actors.otlp.pending import LONGEST_S, SETTLE_S, Pending
from protocols.messages.trace import Span
from tests.support.otlp_receiver import otlp_receiver

POD = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"


def made(name: str, actor: str = "podworker", pod: str = POD, **attributes: str) -> Span:
    return Span(pod, name, 100, 50, attributes, actor, 7)


def test_pending_holds_a_pod_until_it_is_quiet() -> None:
    pending = Pending()
    pending.add([made("a")], 0.0)
    pending.add([made("b"), made("c", pod="other")], 1.0)
    assert pending.due(SETTLE_S) == []
    assert [[span.name for span in spans] for spans in pending.due(1.0 + SETTLE_S)] == [["a", "b"], ["c"]]
    assert len(pending) == 0


def test_pending_holds_a_busy_pod_not_for_ever() -> None:
    pending, now = Pending(), 0.0
    while now < LONGEST_S:
        pending.add([made("a")], now)
        assert pending.due(now) == []
        now += 0.5
    pending.add([made("a")], now)
    assert len(pending.due(now)) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9))), st.integers(1, 20))
def test_pending_is_bounded_and_counts_what_it_drops(added: list[tuple[int, int]], most: int) -> None:
    pending = Pending(most)
    for pod, count in added:
        pending.add([made("a", pod=str(pod))] * count, 0.0)
        assert len(pending) <= most
    kept = sum(len(spans) for spans in pending.all())
    assert kept + pending.dropped == sum(count for _, count in added)


def test_mapping_of_a_driver_call_is_a_grpc_client_span() -> None:
    span = made("NodePrepareResources", "devices", driver="gpu.example.com", error="no such device")
    [found] = Mapper("n1", "host", "1.0").spans([span], 10**18)
    assert found.name == "DRAPlugin/NodePrepareResources"
    assert found.kind is SpanKind.CLIENT
    assert found.status.status_code is StatusCode.ERROR
    assert dict(found.attributes or {}) == {
        "k8s.pod.uid": POD,
        "rpc.system": "grpc",
        "rpc.service": "DRAPlugin",
        "rpc.method": "NodePrepareResources",
        "nodeplane.driver": "gpu.example.com",
        "error.type": "_OTHER",
    }
    assert (found.start_time, found.end_time) == (10**18 + 100, 10**18 + 150)
    assert found.resource.attributes["k8s.node.name"] == "n1"


def test_mapping_of_a_further_node_names_it() -> None:
    [found] = Mapper("n1", "host", "1.0").spans([made("sync", "n1-2/podworker")], 0)
    assert found.resource.attributes["service.name"] == "podworker"
    assert found.resource.attributes["k8s.node.name"] == "n1-2"


def test_exporter_counts_what_a_receiver_rejects() -> None:
    with otlp_receiver() as receiver:
        exporter = Exporter(f"{receiver.url}/v1/traces", "n1")
        assert exporter.export([[made("a")], [made("b", pod="static-pod")]]) == (2, 0)
        receiver.status = 400
        assert exporter.export([[made("c")]]) == (0, 1)
        exporter.close()
    assert {span.name for span in receiver.spans} == {"a", "b"}
