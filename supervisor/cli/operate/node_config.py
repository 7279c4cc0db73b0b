"""`nodeplane node-config`: write the file by which a node on this or another machine joins the plane."""

import argparse
import ipaddress
import sys
from pathlib import Path
from urllib.parse import urlsplit

from protocols.kube.request_uri import uri_host
from protocols.process.files import write_output
from protocols.process.settings import Settings, load_settings
from supervisor.base.errors import NotRunning, UsageError
from supervisor.base.values import node_name
from supervisor.cli.flags import layout_from
from supervisor.pki import node_config
from supervisor.pki.certificates import CLUSTER, LOCAL

MAX_NAME_LENGTH = 52
"""A certificate's common name has 64 characters, with the prefix system:node:."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("node-config", help="let a node join", allow_abbrev=False)
    parser.add_argument("name", help="the node's name")
    parser.add_argument("-o", "--output", metavar="FILE", help="default NAME.kubeconfig; - = standard output")
    parser.add_argument("--server", metavar="URL", help="the API as the node reaches it (default: as it is bound)")
    parser.set_defaults(run=_write_node_config)


def _write_node_config(args: argparse.Namespace) -> int:
    from supervisor.pki.issue_node import issue  # loads cryptography

    api = ApiOfRoot(args)
    text = node_config.write(issue(api.pki, checked_name(args.name), api.server))
    if target := api.write(text, args.output or f"{args.name}.kubeconfig"):
        print(f"{target}: node {args.name} of {api.server}; there: nodeplane up --join {target.name}")
    return 0


class ApiOfRoot:
    """The CA and the URL of the API whose root the flags name. Raises NotRunning and UsageError."""

    def __init__(self, args: argparse.Namespace) -> None:
        layout = layout_from(args)
        self.pki = layout.pki
        if not layout.ca_cert.exists() or not layout.settings.exists():
            raise NotRunning(f"no plane has run below {layout.root}; start it with `nodeplane up` or give --root")
        self.server = api_server(load_settings(layout.settings), args.server or "")

    def write(self, text: str, output: str) -> Path | None:
        """Write an access to a file and return its path; print it, and return None, for `-`."""
        if output == "-":
            print(text, end="")
            return None
        write_output(Path(output), text)
        if only_here(self.server):
            warning = "only this machine reaches that address; for others start the plane with --bind-address"
            print(f"nodeplane: {warning}", file=sys.stderr)
        return Path(output)


def api_server(settings: Settings, wanted: str) -> str:
    """Return the API's URL for the node. Raises UsageError if the API's certificate does not name its host."""
    if not wanted:
        bound = ipaddress.ip_address(settings.bind_address)
        host = settings.api_names[0] if bound.is_unspecified and settings.api_names else ""
        wanted = f"https://{uri_host(host)}:{settings.port}" if host else settings.api_url
    try:
        parts = urlsplit(wanted if "://" in wanted else f"https://{wanted}")
        host, port = parts.hostname or "", parts.port or settings.port
    except ValueError:
        raise UsageError(f"--server {wanted!r} is no https://HOST:PORT") from None
    if parts.scheme != "https" or not host or parts.path.strip("/"):
        raise UsageError(f"--server {wanted!r} is no https://HOST:PORT")
    if host not in (*LOCAL, *CLUSTER, *settings.api_names):
        raise UsageError(f"the API's certificate does not name {host}; start the plane with --api-names {host}")
    return f"https://{uri_host(host)}:{port}"


def only_here(server: str) -> bool:
    """Return True if a server's address is reached from this machine only."""
    return (urlsplit(server).hostname or "") in LOCAL


def checked_name(name: str) -> str:
    """Return a node's name that a certificate can have. Raises UsageError."""
    if len(node_name(name, "choose another")) > MAX_NAME_LENGTH:
        raise UsageError(f"node name {name} has more than {MAX_NAME_LENGTH} characters, which no certificate takes")
    return name
