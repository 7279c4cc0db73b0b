"""The node's endpoint, put together."""

from actors.podworker.links.runtime import BusRuntime
from actors.podworker.stats.route import StatsRoute
from actors.podworker.stats.sampler import Sampler
from actors.podworker.streaming.calls import StreamCalls
from actors.podworker.streaming.routes import NodeView, routes
from actors.podworker.streaming.server import LOOPBACK, EndpointOptions, NodeEndpoint
from protocols.actor import Context


def node_endpoint(context: Context, view: NodeView) -> NodeEndpoint:
    layout = context.layout
    cert, key = layout.client_cert("node-serving")
    port_file = layout.run / "node-endpoint.port"
    host, port = context.settings.node_ip or LOOPBACK, context.settings.node_port
    options = EndpointOptions(cert=cert, key=key, client_ca=layout.ca_cert, port_file=port_file, host=host, port=port)
    stats = StatsRoute(context.settings.node_name, Sampler(BusRuntime(context.bus).stats))
    bare_spdy = not context.settings.runtime_embedded
    return NodeEndpoint(options, {**routes(view, StreamCalls(context.bus), bare_spdy), "stats": stats.serve})
