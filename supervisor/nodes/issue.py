"""Makes a node's pass with the plane's CA. Loads cryptography: called by a command, or run as a process of its own
(`python -m supervisor.nodes.issue PKI NAME SERVER`, which prints the pass) by a supervisor, which must not."""

import datetime
import subprocess
import sys
from pathlib import Path

from protocols.messages.node import serving_name
from supervisor.errors import PkiFailed
from supervisor.forkserver.client import environment
from supervisor.nodes import passes
from supervisor.nodes.types import USER, Pair, Pass
from supervisor.pki.certificates import Certificate

ISSUE_S = 30.0
NODES = "system:nodes"


def issue(pki: Path, node: str, server: str) -> Pass:
    """Signed by the CA of `pki`; nothing is written. Raises PkiFailed."""
    from supervisor.pki.issue import load_authority, make_leaf

    now = datetime.datetime.now(datetime.UTC)
    authority = load_authority(pki, now)
    if authority is None:
        raise PkiFailed(f"no CA that is whole and good for a while lies in {pki}; start the plane once")
    user = Certificate("client", USER + node, NODES)
    serving = Certificate("serving", USER + node, NODES, hosts=(serving_name(node),))
    made = [make_leaf(authority, leaf, now) for leaf in (user, serving)]
    return Pass(
        server=server,
        node=node,
        ca=(pki / "ca.crt").read_bytes(),
        client=Pair(made[0].certificate, made[0].key),
        serving=Pair(made[1].certificate, made[1].key),
        serving_name=serving_name(node),
        not_after=min(leaf.not_after for leaf in made).timestamp(),
    )


def issued(pki: Path, node: str, server: str) -> Pass:
    """The same, without loading cryptography here. Raises PkiFailed."""
    command = [sys.executable, "-P", "-m", "supervisor.nodes.issue", str(pki), node, server]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ISSUE_S, env=environment(), check=False)
    except subprocess.TimeoutExpired:
        raise PkiFailed(f"making certificates took more than {ISSUE_S:g} s; is the machine overloaded?") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise PkiFailed(f"cannot make certificates for node {node}: {lines[-1]}")
    return passes.read(done.stdout, f"the pass of {node}")


def main() -> int:
    try:
        print(passes.write(issue(Path(sys.argv[1]), sys.argv[2], sys.argv[3])), end="")
    except (OSError, PkiFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
