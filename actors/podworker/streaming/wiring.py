"""The node's endpoint, put together."""

from collections.abc import Callable, Mapping

from actors.podworker.streaming.calls import StreamCalls
from actors.podworker.streaming.routes import NodeView, routes
from actors.podworker.streaming.server import EndpointOptions, NodeEndpoint
from actors.podworker.types import Object
from protocols.actor import Context
from protocols.messages.pleg import PodStatus


def node_endpoint(
    context: Context, pods: Mapping[str, Object], status: Callable[[str], PodStatus | None]
) -> NodeEndpoint:
    layout = context.layout
    cert, key = layout.client_cert("node-serving")
    port_file = layout.run / "node-endpoint.port"
    options = EndpointOptions(cert=cert, key=key, client_ca=layout.ca_cert, port_file=port_file)
    return NodeEndpoint(options, routes(NodeView(pods=pods, status=status), StreamCalls(context.bus)))
