"""A further node of a plane on the same machine: a node group with a root, a bus and a supervisor of its own.

A process, so that a failure of one node's supervisor ends only that node's actors; the plane's supervisor starts it
like any actor. Owns ROOT/nodes/NAME. On kill -9 its actors end, containers keep running, and the restarted group adopts
them.
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec

from protocols.errors import NodeplaneError
from protocols.messages.podworker import serving_name
from protocols.messages.supervisor import ROOT_NAME
from protocols.process.settings import Settings, load_settings
from supervisor.base.errors import guard
from supervisor.base.groups import NODE, NODE_SHUTDOWN_S, PlaneShape, SupervisionLimits, children
from supervisor.forkserver.client import ForkClient, fork
from supervisor.pki.node_config import NodeConfig, NodeConfigInvalid
from supervisor.plane.start import Begin, process_age_s, run_prepared
from supervisor.startup import join
from supervisor.startup.prepared import Parent

RENEW_BEFORE_S = 60 * 86400.0
DETACHED = 0
"""Console without a reader."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="node")
    for flag in ("--settings", "--supervisor", "--instance"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args(argv)
    sys.exit(guard(lambda: _run(args)))


def _run(args: argparse.Namespace) -> int:
    forkserver = fork([spec.module for spec in children(PlaneShape(groups=(NODE,)))])  # before anything is opened here
    try:
        return _serve(args, forkserver)
    except (NodeplaneError, OSError):
        forkserver.close()
        raise


def _serve(args: argparse.Namespace, forkserver: ForkClient) -> int:
    plane = load_settings(Path(args.settings))
    settings = local_settings(plane, int(args.instance.rpartition("-")[2]))
    prepared = join.prepare_node(
        settings, ROOT_NAME, lambda: join.write_node_files(settings.layout, _node_config(plane, settings))
    )
    parent = Parent(run_dir=plane.layout.run, supervisor=args.supervisor, instance=args.instance)
    limits = SupervisionLimits(shutdown_s=NODE_SHUTDOWN_S)
    begin = Begin(time.monotonic() - process_age_s(), limits, lambda same: same)
    return run_prepared(prepared, begin, DETACHED, parent, forkserver)


def local_settings(plane: Settings, number: int) -> Settings:
    """Return the plane's settings for the root of node `number`; its metrics take a free port."""
    where = plane.node_layout(number)
    return msgspec.structs.replace(
        plane,
        root=str(where.root),
        kubelet_dir=str(where.kubelet),
        node_name=where.root.name,
        node_port=0,
        healthz_port=0,
        joined=True,
        runtime_endpoint=f"unix://{where.runtime_socket}",
        pod_resources=msgspec.structs.replace(plane.pod_resources, health_address=""),
        metrics_port=0,
        otlp="",  # the plane exports the spans of all its nodes
        record="",  # and records them
    )


def _node_config(plane: Settings, settings: Settings) -> NodeConfig:
    """Return the node's certificates of its last run while they are valid, or new ones. Raises PkiFailed."""
    from supervisor.pki.issue_node import issued

    try:
        known = join.read_node_config(settings.layout.node_kubeconfig)
    except NodeConfigInvalid:
        known = None
    good = known is not None and known.not_after - time.time() > RENEW_BEFORE_S and known.server == plane.api_url
    good = good and known is not None and known.serving_name == serving_name(settings.node_name)
    if known is not None and good and known.ca == plane.layout.ca_cert.read_bytes():
        return known
    return issued(plane.layout.pki, settings.node_name, plane.api_url)


if __name__ == "__main__":
    main()
