"""`nodeplane kubeconfig`: write the file with which one of Kubernetes' own programs uses the API."""

import argparse

from supervisor.base.errors import UsageError
from supervisor.cli.operate.node_config import ApiOfRoot, checked_name
from supervisor.pki.issue_user import KUBELET, USERS, certificate_of
from supervisor.pki.kubeconfig import kubeconfig

PROGRAMS = (*USERS, KUBELET)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("kubeconfig", help="let a program use the API", allow_abbrev=False)
    parser.add_argument("--for", dest="program", required=True, choices=PROGRAMS, help="whose rights the file has")
    parser.add_argument("--node", metavar="NAME", help="the node of a kubelet")
    parser.add_argument("-o", "--output", metavar="FILE", help="default PROGRAM.kubeconfig; - = standard output")
    parser.add_argument("--server", metavar="URL", help="the API as the program reaches it (default: as it is bound)")
    parser.set_defaults(run=_write_kubeconfig)


def _write_kubeconfig(args: argparse.Namespace) -> int:
    from supervisor.pki.issue_user import issue  # loads cryptography

    what = certificate_of(args.program, _node(args.program, args.node))
    api = ApiOfRoot(args)
    text = kubeconfig(issue(api.pki, what, api.server))
    if target := api.write(text, args.output or f"{args.program}.kubeconfig"):
        print(f"{target}: {what.common_name} of {api.server}")
    return 0


def _node(program: str, name: str | None) -> str:
    """Return the name of a kubelet's node. Raises UsageError."""
    if program == KUBELET:
        if not name:
            raise UsageError("--for kubelet needs the name of its node: --node NAME")
        return checked_name(name)
    if name:
        raise UsageError(f"--node is for kubelet; {program} has the same rights for all nodes")
    return ""
