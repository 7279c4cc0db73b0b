"""Requests made to hold an event loop, one for each row of docs/explanation/bounds.md that HTTP can reach.

Pure data: `sent_before` prepares the plane once, `sent` builds the attack. Any client can play them:

    for attack in ATTACKS:
        for sent in attack.sent_before(): play(sent)      # each answers 201 or 409
        answer = play(attack.sent())
        assert answer.status in attack.statuses

All objects live in the namespace NAMESPACE, which the caller creates. An attack with a `ready` path may be sent once
that path answers 200.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

NAMESPACE = "stall"
GROUP = "stall.example.com"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
CUSTOM = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
BODY = 2_900_000
"""Bytes of a body just below the limit of 3 MiB."""
LINE = 500_000
"""Bytes of a query just below the limit of a request's first line."""
SEED = 14


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def all_headers(self) -> dict[str, str]:
        return {**({"Content-Type": self.media} if self.body else {}), **dict(self.headers)}


def _nothing() -> Sequence[Sent]:
    return ()


@dataclass(frozen=True)
class Attack:
    """`statuses`: those docs/explanation/bounds.md promises, never 500. `user` is one of the test planes' users."""

    name: str
    sent: Callable[[], Sent]
    statuses: frozenset[int]
    sent_before: Callable[[], Sequence[Sent]] = field(default=_nothing)
    ready: str = ""
    user: str = "admin"


def post(path: str, obj: Any, **more: Any) -> Sent:
    return Sent("POST", path, json.dumps(obj).encode(), **more)


def _config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}


def _many_config_maps() -> Sequence[Sent]:
    return [post(f"{CORE}/configmaps", _config_map(f"many-{number}")) for number in range(260)]


def _listed(**selectors: str) -> Sent:
    query = "&".join(f"{name}={quote(text, safe=',!=')}" for name, text in selectors.items())
    return Sent("GET", f"{CORE}/configmaps?{query}")


def _definition(plural: str, spec: dict[str, Any]) -> Sent:
    kind = plural.capitalize()
    names = {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return post(
        DEFINITIONS,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
        },
    )


def _texts(plural: str, **limits: Any) -> Callable[[], Sequence[Sent]]:
    """A kind whose spec.text is a string under these limits."""
    spec = {"type": "object", "properties": {"text": {"type": "string", **limits}}}
    return lambda: [_definition(plural, spec)]


def _custom(plural: str, name: str, **spec: Any) -> Sent:
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": name},
        "spec": spec,
    }
    return post(f"{CUSTOM}/{plural}", body)


def _role(name: str, verbs: int, resources: int, names: int) -> Sent:
    rule = {
        "apiGroups": [""],
        "verbs": [f"verb{n}" for n in range(verbs)],
        "resources": [f"resource{n}" for n in range(resources)],
        "resourceNames": [f"name{n}" for n in range(names)],
    }
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    return post(f"{RBAC}/roles", body)


def _patched(name: str, patch: Any, kind: str, **more: Any) -> Sent:
    return Sent("PATCH", f"{CORE}/configmaps/{name}", json.dumps(patch).encode(), f"application/{kind}+json", **more)


def _target(name: str, **data: Any) -> Callable[[], Sequence[Sent]]:
    return lambda: [post(f"{CORE}/configmaps", {**_config_map(name), **data})]


def _ab(size: int) -> str:
    return "".join(random.Random(SEED).choices("ab", k=size))


def _copies() -> Sent:
    """Each of 9,999 operations copies all there is into a new place."""
    copies = [{"op": "copy", "from": "/data", "path": f"/copy{n}"} for n in range(9_999)]
    return _patched("copied", copies, "json-patch")


REFUSED = frozenset({400, 413, 414, 422, 429, 431, 504})
DONE = frozenset({200, 201, 409})
ANY = REFUSED | DONE

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "label selector of 165,000 terms",
        lambda: _listed(labelSelector=",".join(["!a"] * 165_000)),
        frozenset({400}),
        _many_config_maps,
    ),
    Attack(
        "label selector of 50,000 values",
        lambda: _listed(labelSelector="a in (" + ",".join(f"v{n}" for n in range(50_000)) + ")"),
        frozenset({400}),
    ),
    Attack(
        "field selector of 20,000 terms",
        lambda: _listed(fieldSelector=",".join(["metadata.name!=a"] * 20_000)),
        frozenset({400}),
        _many_config_maps,
    ),
    Attack(
        "label selector of a stranger",
        lambda: _listed(labelSelector=",".join(f"!k{n}" for n in range(60_000))),
        frozenset({400, 403}),
        user="stranger",
    ),
    Attack("role of 150 x 150 x 150", lambda: _role("cubed", 150, 150, 150), ANY),
    Attack(
        "everyday pattern on 2.9 MB",
        lambda: _custom("labels", "long", text="a" * BODY),
        ANY,
        _texts("labels", pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        ready=f"{CUSTOM}/labels",
    ),
    Attack(
        "pattern of 1,000 alternatives on 200 kB",
        lambda: _custom("doubles", "long", text=_ab(200_000)),
        ANY,
        _texts("doubles", pattern="^(a|b)*a(a|b){1000}c$"),
        ready=f"{CUSTOM}/doubles",
    ),
    Attack(
        "JSON patch of 9,999 copies",
        _copies,
        frozenset({413, 422}),
        _target("copied", data={f"k{n}": "v" * 200 for n in range(500)}),
    ),
)
