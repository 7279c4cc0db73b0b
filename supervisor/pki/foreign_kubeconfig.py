"""Make the file of a node from a kubeconfig that kubeadm or another tool wrote for a kubelet.

Its certificates may lie in files. The node's name is the certificate's. The endpoint's pair is self-signed, as a
kubelet's: a kube-apiserver without --kubelet-certificate-authority accepts it. `made` runs this module as a process
(`python -m supervisor.pki.foreign_kubeconfig FILE ADDRESS` prints the node's file), since it loads cryptography.
"""

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

from protocols.errors import NodeplaneError
from protocols.kubeclient.kubeconfig import embedded
from protocols.messages.podworker import serving_name
from protocols.process.files import read_bounded
from supervisor.forkserver.client import environment
from supervisor.pki import node_config
from supervisor.pki.node_config import USER, NodeConfig, NodeConfigInvalid, Pair

MAKE_S = 30.0


def made(path: Path, address: str) -> bytes:
    """Return the node's file, made in a process of its own. Raises NodeConfigInvalid."""
    command = [sys.executable, "-P", "-m", "supervisor.pki.foreign_kubeconfig", str(path.absolute()), address]
    try:
        done = subprocess.run(command, capture_output=True, timeout=MAKE_S, env=environment(), check=False)
    except subprocess.TimeoutExpired:
        raise NodeConfigInvalid(f"reading {path} took more than {MAKE_S:g} s; is the machine overloaded?") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise NodeConfigInvalid(lines[-1])
    return done.stdout


def node_config_of(path: Path, address: str) -> NodeConfig:
    """Read the kubeconfig and sign a serving pair for the address and the node's name. Raises NodeConfigInvalid."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    from supervisor.pki.certificates import Certificate
    from supervisor.pki.issue import self_signed

    kubeconfig = node_config.parsed(read_bounded(path), str(path))
    client = Pair(_content(path, kubeconfig.user, "client-certificate"), _content(path, kubeconfig.user, "client-key"))
    try:
        certificate = x509.load_pem_x509_certificate(client.certificate)
    except ValueError as error:
        raise NodeConfigInvalid(f"the client certificate of {path} cannot be read: {error}") from None
    name = "".join(
        str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    )
    if not name.startswith(USER):
        raise NodeConfigInvalid(f"the certificate of {path} is of {name!r}, which is no node; {node_config.MEND}")
    node = name.removeprefix(USER)
    hosts = (node, serving_name(node), address)
    serving = self_signed(Certificate("serving", name, hosts=hosts), datetime.datetime.now(datetime.UTC))
    return NodeConfig(
        server=_server(path, kubeconfig.cluster),
        node=node,
        ca=_content(path, kubeconfig.cluster, "certificate-authority"),
        client=client,
        serving=Pair(serving.certificate, serving.key),
        serving_name=serving_name(node),
        not_after=certificate.not_valid_after_utc.timestamp(),
        address=address,
    )


def _server(path: Path, cluster: dict[str, Any]) -> str:
    if not (server := cluster.get("server")):
        raise NodeConfigInvalid(f"{path} names no server")
    return str(server)


def _content(path: Path, entry: dict[str, Any], field: str) -> bytes:
    """Return PEM from FIELD-data or from the file that FIELD names, relative to the kubeconfig."""
    if (data := embedded(entry, field, str(path))) is not None:
        return data
    if not entry.get(field):
        raise NodeConfigInvalid(f"{path} has neither {field}-data nor {field}; {node_config.MEND}")
    return (path.parent / str(entry[field])).read_bytes()


def main() -> int:
    try:
        print(node_config.write(node_config_of(Path(sys.argv[1]), sys.argv[2])), end="")
    except (OSError, NodeplaneError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
