"""Issue the certificates of a node with the CA of the plane.

`issue` loads cryptography, which a supervisor must not keep in memory: it calls `issued`, which runs this module as a
process (`python -m supervisor.pki.issue_node PKI NAME SERVER` prints the node's kubeconfig).
"""

import datetime
import subprocess
import sys
from pathlib import Path

from protocols.messages.podworker import serving_name
from supervisor.base.errors import PkiFailed
from supervisor.forkserver.client import environment
from supervisor.pki import node_config
from supervisor.pki.certificates import Certificate
from supervisor.pki.node_config import USER, NodeConfig, Pair

ISSUE_S = 30.0
NODES = "system:nodes"


def issue(pki: Path, node: str, server: str) -> NodeConfig:
    """Sign a client and a serving certificate with the CA of `pki`; writes nothing. Raises PkiFailed."""
    from supervisor.pki.issue import cluster_authority, make_leaf

    now = datetime.datetime.now(datetime.UTC)
    authority = cluster_authority(pki, now)
    user = Certificate("client", USER + node, NODES)
    serving = Certificate("serving", USER + node, NODES, hosts=(serving_name(node),))
    leaves = [make_leaf(authority, leaf, now) for leaf in (user, serving)]
    return NodeConfig(
        server=server,
        node=node,
        ca=(pki / "ca.crt").read_bytes(),
        client=Pair(leaves[0].certificate, leaves[0].key),
        serving=Pair(leaves[1].certificate, leaves[1].key),
        serving_name=serving_name(node),
        not_after=min(leaf.not_after for leaf in leaves).timestamp(),
    )


def issued(pki: Path, node: str, server: str) -> NodeConfig:
    """Do the same in a process of its own. Raises PkiFailed."""
    command = [sys.executable, "-P", "-m", "supervisor.pki.issue_node", str(pki), node, server]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ISSUE_S, env=environment(), check=False)
    except subprocess.TimeoutExpired:
        raise PkiFailed(f"making certificates took more than {ISSUE_S:g} s; is the machine overloaded?") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise PkiFailed(f"cannot make certificates for node {node}: {lines[-1]}")
    return node_config.read(done.stdout, f"the pass of {node}")


def main() -> int:
    try:
        print(node_config.write(issue(Path(sys.argv[1]), sys.argv[2], sys.argv[3])), end="")
    except (OSError, PkiFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
