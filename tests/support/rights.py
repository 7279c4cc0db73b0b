"""What each credential of a plane may do, asked of its API server: the tables of docs/explanation/security.md."""

import http.client
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ETCD_CLIENT = "apiserver-etcd-client"


class Deed(NamedTuple):
    """A row: what is asked, in words and in the words of a review. `field` narrows a list."""

    words: str
    verb: str = ""
    resource: str = ""
    group: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    field: tuple[str, str] | None = None
    path: str = ""
    """A path to read instead."""

    def attributes(self) -> dict[str, Any]:
        plain = {key: value for key, value in self._asdict().items() if key not in ("words", "field", "path") and value}
        if self.field is None:
            return plain
        term = {"key": self.field[0], "operator": "In", "values": [self.field[1]]}
        return {**plain, "fieldSelector": {"requirements": [term]}}


RBAC, DRA, LEASES = "rbac.authorization.k8s.io", "resource.k8s.io", "coordination.k8s.io"
TOKEN = ("create", "serviceaccounts", "", "default")
OF_N1 = ("spec.nodeName", "n1")
DEEDS = (
    Deed("read health and version", path="/healthz"),
    Deed("read which resources there are", path="/api"),
    Deed("list all secrets", "list", "secrets"),
    Deed("read a secret that a pod of this node uses", "get", "secrets", "", "default", "treasure"),
    Deed("write secrets", "create", "secrets", "", "default"),
    Deed("list all pods", "list", "pods"),
    Deed("list the pods of this node", "list", "pods", field=OF_N1),
    Deed("create pods (a node: mirror pods of its own)", "create", "pods", "", "default"),
    Deed("delete a pod of this node", "delete", "pods", "", "default", "plain"),
    Deed("write the status of a pod of this node", "patch", "pods", "", "default", "plain", "status"),
    Deed("write the status of a pod elsewhere", "patch", "pods", "", "default", "elsewhere", "status"),
    Deed("bind pods to nodes", "create", "pods", "", "default", "plain", "binding"),
    Deed("exec into pods", "create", "pods", "", "default", "plain", "exec"),
    Deed("get a token of an account that a pod of this node runs as", *TOKEN, "default", "token"),
    Deed("get a token of any account", *TOKEN, "other", "token"),
    Deed("write this node's status", "patch", "nodes", "", "", "n1", "status"),
    Deed("write another node's status", "patch", "nodes", "", "", "n2", "status"),
    Deed("renew this node's lease", "update", "leases", LEASES, "kube-node-lease", "n1"),
    Deed("renew leases of elections", "update", "leases", LEASES, "kube-system", "kube-scheduler"),
    Deed("write the status of claims", "update", "resourceclaims", DRA, "default", "c", "status"),
    Deed("allocate and reserve claims", "update", "resourceclaims", DRA, "", "", "binding"),
    Deed("write the devices of any claim", "arbitrary-node:update", "resourceclaims", DRA, "default", "d", "driver"),
    Deed("publish devices of this node", "create", "resourceslices", DRA),
    Deed("write events", "create", "events", "", "default"),
    Deed("create roles and bindings", "create", "clusterrolebindings", RBAC),
    Deed("act as somebody else", "impersonate", "users"),
)  # fmt: skip
COLUMNS = (
    "admin",
    "scheduler",
    "controllers",
    "podworker, health",
    "apiserver-kubelet-client",
    "service account",
    "nobody",
)
PAIRS = {"podworker, health": ("podworker", "health")}
"""Certificates behind a column of another name: all of them must have the same rights."""


class Caller:
    """One credential, over a connection that stays open."""

    def __init__(self, port: int, ca: Path, pair: tuple[Path, Path] | None, token: str = "") -> None:
        context = ssl.create_default_context(cafile=str(ca))
        if pair is not None:
            context.load_cert_chain(*pair)
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self._connection.request(method, path, json.dumps(body) if body else None, self._headers)
        answer = self._connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.startswith(b"{") else data

    def may(self, deed: Deed) -> bool:
        if deed.path:
            return self.ask("GET", deed.path)[0] == 200
        code, answer = self.ask("POST", ACCESS, {"spec": {"resourceAttributes": deed.attributes()}})
        return code == 201 and bool(answer["status"]["allowed"])

    def rules(self) -> list[str]:
        """What the rules review lists for namespace default, a line each."""
        code, answer = self.ask("POST", RULES, {"spec": {"namespace": "default"}})
        assert code == 201, answer
        return [_rule(rule) for kind in ("resourceRules", "nonResourceRules") for rule in answer["status"][kind]]

    def close(self) -> None:
        self._connection.close()


def _rule(rule: dict[str, list[str]]) -> str:
    """`verbs: resources`, of other groups than the core as `resource.group`."""
    group = next(iter(rule.get("apiGroups", ())), "")
    what = rule.get("nonResourceURLs") or [f"{name}.{group}" if group else name for name in rule.get("resources", ())]
    return f"{' '.join(rule['verbs'])}: {' '.join(what)}"


def rights_table(callers: Callable[[str], list[Caller]]) -> str:
    """`callers` gives those behind a column's name."""
    lines = [f"| may | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    by_column = {column: callers(column) for column in COLUMNS}
    for deed in DEEDS:
        answers = [{caller.may(deed) for caller in by_column[column]} for column in COLUMNS]
        assert all(len(answer) == 1 for answer in answers), f"{deed.words}: {answers}"
        lines.append(f"| {deed.words} | {' | '.join('yes' if answer == {True} else '-' for answer in answers)} |")
    for found in by_column.values():
        for caller in found:
            caller.close()
    return "\n".join(lines)


def rules_table(known: dict[str, list[str]]) -> str:
    """Rules by credential, without those that the account (which has only what everybody has) is given, too."""
    common = known["everybody who is authenticated"]
    lines = ["| credential | rules |", "|---|---|"]
    for name, rules in known.items():
        own = rules if rules is common else [rule for rule in rules if rule not in common]
        lines.append(f"| {name} | {'<br>'.join(f'`{rule}`' for rule in own) or 'none'} |")
    return "\n".join(lines)
