"""Requests made to hold an event loop, one for each row of docs/explanation/bounds.md that HTTP can reach.

Pure data: `sent_before` prepares the plane once, `sent` builds the attack. Any client can play them:

    for attack in ATTACKS:
        for sent in attack.sent_before(): play(sent)      # each answers 201 or 409
        answer = play(attack.sent())
        assert answer.status in attack.statuses

All objects live in the namespace NAMESPACE, which the caller creates. An attack with a `ready` path may be sent once
that path answers its user with 200.
"""

import base64
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.support.harmful_selectors import SELECTORS

NAMESPACE = "stall"
GROUP = "stall.example.com"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
CUSTOM = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
BODY = 2_900_000
"""Bytes of a body just below the limit of 3 MiB."""
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


def _definition(plural: str, spec: dict[str, Any], **more: Any) -> Sent:
    kind = plural.capitalize()
    names = {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
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


def _rules(name: str, count: int) -> Sent:
    rules = [
        {"apiGroups": [""], "verbs": ["get"], "resources": ["x"], "resourceNames": [f"n{n}"]} for n in range(count)
    ]
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    return post(f"{RBAC}/roles", body)


def _editor() -> Sent:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "verbs": ["create", "list"], "resources": ["roles"]}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "editor"},
        "rules": [rule],
    }
    return post(f"{RBAC}/roles", body)


def _bound(role: str, user: str) -> Sent:
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    return post(f"{RBAC}/rolebindings", body)


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


def _floats() -> Sent:
    """Numbers that decoders find hard, 0.1 ms each with some."""
    return Sent("POST", f"{CORE}/configmaps", b'{"x":[' + b",".join([b"1e-327"] * (BODY // 7)) + b"]}")


def _integers() -> Sent:
    """As long as Python reads them by default."""
    return Sent("POST", f"{CORE}/configmaps", b'{"a":[' + b",".join([b"9" * 4_300] * (BODY // 4_301)) + b"]}")


def _empties() -> Sent:
    return Sent("POST", f"{CORE}/configmaps", b'{"x":[' + b",".join([b"[]"] * (BODY // 3)) + b"]}")


def _yaml() -> Sent:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\nx:\n" + b"- a\n" * (BODY // 12)
    return Sent("POST", f"{CORE}/configmaps", body, "application/yaml")


def _managed(name: str) -> dict[str, Any]:
    """A config map that owns as many fields as its body has room for."""
    return {**_config_map(name), "data": {f"k{n}": "" for n in range(90_000)}}


def _applied() -> Sent:
    body = json.dumps(_managed("applied")).encode()
    path = f"{CORE}/configmaps/applied?fieldManager=stall"
    return Sent("PATCH", path, body, "application/apply-patch+yaml")


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def _wide_pod() -> Sent:
    env = [{"name": f"E{n}", "value": "x"} for n in range(50_000)]
    return post(f"{CORE}/pods", _pod("wide", containers=[{"name": "c", "image": "i", "env": env}]))


def _many_containers() -> Sent:
    return post(f"{CORE}/pods", _pod("many", containers=[{"name": f"c{n}", "image": "i"} for n in range(25_000)]))


def _tolerations() -> Sent:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(40_000)]
    return post(f"{CORE}/pods", _pod("tolerant", tolerations=tolerations))


def _strategic() -> Sent:
    env = [{"name": f"E{n}", "value": "y"} for n in range(25_000)]
    order = [{"name": f"E{n}"} for n in range(25_000)]
    containers = [{"name": "c", "env": env, "$setElementOrder/env": order}]
    patch = json.dumps({"spec": {"containers": containers}}).encode()
    return Sent("PATCH", f"{CORE}/pods/patched", patch, "application/strategic-merge-patch+json")


def _shifts() -> Sent:
    """Each operation moves all that follow it."""
    first = {"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"] * 100_000}
    patch = [first] + [{"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/c"}] * 9_999
    return _patched("shifted", patch, "json-patch")


def _deep_path() -> Sent:
    return _patched("deepened", [{"op": "add", "path": "/data" * 300_000, "value": ""}], "json-patch")


def _owner_references() -> Sent:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(40_000)]
    return post(f"{CORE}/configmaps", _config_map("owned", ownerReferences=owners))


def _ruled(rule: str, plural: str = "rules", **limits: Any) -> Callable[[], Sequence[Sent]]:
    rules = [{"rule": rule}]
    items = {"type": "array", "maxItems": 20_000, "items": {"type": "integer"}, **limits}
    spec = {"type": "object", "properties": {"list": items}, "x-kubernetes-validations": rules}
    return lambda: [_definition(plural, spec)]


def _wide_schema() -> Sent:
    properties = {f"p{n}": {"type": "string", "pattern": "^[a-z]{1,60}$"} for n in range(20_000)}
    return _definition("wides", {"type": "object", "properties": properties})


def _large_patterns() -> Sent:
    """Each is compiled for tens of milliseconds."""
    properties = {f"p{n}": {"type": "string", "pattern": r"\\p{L}{1,70}"[1:] + f"{n}"} for n in range(2_000)}
    return _definition("larges", {"type": "object", "properties": properties})


def _combined() -> Callable[[], Sequence[Sent]]:
    """Each value is judged by each of many schemas."""
    texts = {"type": "array", "items": {"type": "string", "anyOf": [{"pattern": f"^{n}$"} for n in range(500)]}}
    return lambda: [_definition("anys", {"type": "object", "properties": {"list": texts}})]


def _default_of_a_megabyte() -> Sent:
    """Each item of a list gets it."""
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 1_000_000}}}
    return _definition("growings", {"type": "object", "properties": {"list": {"type": "array", "items": item}}})


def _columns() -> Sequence[Sent]:
    """Each shows a whole object of a megabyte."""
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": ".spec"} for n in range(2_000)]
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return [_definition("printeds", spec, additionalPrinterColumns=columns)]


def _limited_namespace() -> Sent:
    return post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}})


def _limits() -> Sent:
    resources = {f"example.com/r{n}": "1" for n in range(5_000)}
    limits = [{"type": "Container", "default": resources, "defaultRequest": resources}]
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": limits}}
    return post("/api/v1/namespaces/limited/limitranges", body)


def _defaulted() -> Sent:
    containers = [{"name": f"c{n}", "image": "i"} for n in range(300)]
    return post("/api/v1/namespaces/limited/pods", _pod("defaulted", containers=containers))


def _review() -> Sent:
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods"}
    spec = {"user": "u", "groups": [f"g{n}" for n in range(200_000)], "resourceAttributes": attributes}
    return post(path, {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})


def _slice() -> Sent:
    devices = [{"name": f"d{n}", "attributes": {f"a{m}": {"int": m} for m in range(32)}} for n in range(128)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n1", "devices": devices}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    return post("/apis/resource.k8s.io/v1/resourceslices", body)


def _claim() -> Sent:
    """Selectors that are compiled one by one."""
    text = " && ".join(f"device.attributes['d.example.com'].a{n} == {n}" for n in range(40))
    return _selecting("selected", [f"{text} && {n} == {n}" for n in range(32)], 32)


def _selecting(name: str, expressions: Sequence[str], requests: int) -> Sent:
    exactly = {"deviceClassName": "c", "selectors": [{"cel": {"expression": text}} for text in expressions]}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": f"r{n}", "exactly": exactly} for n in range(requests)]}},
    }
    return post(f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims", body)


def _harmful(name: str, expression: str) -> Attack:
    """A claim whose selector harmed whoever checked or evaluated it."""
    return Attack(f"selector: {name}", lambda: _selecting(f"harmful-{name}", [expression], 1), ANY)


def _of_large(accept: str, name: str = "") -> Callable[[], Sent]:
    path = f"{CORE}/configmaps/{name}" if name else f"{CORE}/configmaps"
    return lambda: Sent("GET", path, headers=(("Accept", accept),))


def _deletion_as_yaml() -> Sent:
    return Sent("DELETE", f"{CORE}/configmaps?dryRun=All", headers=(("Accept", "application/yaml"),))


def _review_as_yaml() -> Sent:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    body = json.dumps({"spec": spec, "x": ["a"] * (BODY // 6)}).encode()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return Sent("POST", path, body, headers=(("Accept", "application/yaml"),))


def _write_as_yaml() -> Sent:
    data = {f"k{n}": "v" for n in range(BODY // 30)}
    body = json.dumps({**_config_map("as-yaml"), "data": data}).encode()
    return Sent("POST", f"{CORE}/configmaps?dryRun=All", body, headers=(("Accept", "application/yaml"),))


def _large_config_maps() -> Sequence[Sent]:
    data = {f"k{n}": "v" * 20 for n in range(20_000)}
    return [post(f"{CORE}/configmaps", {**_config_map(f"large-{n}"), "data": data}) for n in range(8)]


def _hard_token() -> Sent:
    part = base64.urlsafe_b64encode(b"[" + b",".join([b"1e-327"] * 6_000) + b"]").rstrip(b"=").decode()
    return Sent("GET", f"{CORE}/configmaps", headers=(("Authorization", f"Bearer {part}.{part}.x"),))


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICED = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
"""A resource that ordinary clients do not write: policies of attacks match it."""


def _policed(name: str, kind: str, asks: dict[str, Any]) -> Callable[[], Sequence[Sent]]:
    """A policy that matches service accounts with its name; `asks` is what it evaluates."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["serviceaccounts"]}
    chosen = {"matchLabels": {"policed": name}}
    spec = {"matchConstraints": {"resourceRules": [rule], "objectSelector": chosen}, **asks}
    bound = {"policyName": name, **({"validationActions": ["Deny"]} if kind == "validating" else {})}
    return lambda: [
        post(f"{ADMISSION}/{kind}admissionpolicies", {"metadata": {"name": name}, "spec": spec}),
        post(f"{ADMISSION}/{kind}admissionpolicybindings", {"metadata": {"name": name}, "spec": bound}),
    ]


def _account(policy: str, finalizers: int = 0) -> Sent:
    metadata = {
        "name": f"of-{policy}",
        "labels": {"policed": policy},
        "finalizers": [f"example.com/f{number}" for number in range(finalizers)],
    }
    return post(POLICED, {"metadata": metadata})


def _evaluated(name: str, expression: str, finalizers: int = 0) -> Attack:
    """A write for which a policy's expression is evaluated."""
    asks = {"validations": [{"expression": expression}]}
    return Attack(f"policy: {name}", lambda: _account(name, finalizers), ANY, _policed(name, "validating", asks))


def _mutated(name: str, expression: str) -> Attack:
    """A write for which a mutating policy's value is evaluated; it is none that can be applied."""
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    made = _policed(name, "mutating", {"reinvocationPolicy": "Never", "mutations": [mutation]})
    return Attack(f"mutating policy: {name}", lambda: _account(name), ANY | {500}, made)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
REFUSED = frozenset({400, 403, 413, 414, 422, 429, 431, 504})
DONE = frozenset({200, 201, 409})
ANY = REFUSED | DONE

GRANTS_TOO_MUCH = frozenset({403})
"""Answered by the check of what the role grants, once `ready` shows that its author may create roles."""

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
        lambda: _listed(labelSelector=",".join(f"!k{n}" for n in range(15_000))),
        frozenset({403}),
        user="stranger",
    ),
    Attack(
        "label selector of 30,000 terms",
        lambda: _listed(labelSelector=",".join(["!a"] * 30_000)),
        frozenset({400}),
    ),
    Attack(
        "label selector of 5,000 terms",
        lambda: _listed(labelSelector=",".join(f"!k{n}" for n in range(5_000))),
        frozenset({200}),
        _many_config_maps,
    ),
    Attack(
        "field selector of 5,000 terms",
        lambda: _listed(fieldSelector=",".join(["metadata.name!=a"] * 5_000)),
        frozenset({400}),
    ),
    Attack("role of 150 x 150 x 150", lambda: _role("cubed", 150, 150, 150), ANY),
    Attack(
        "role of 150 x 150 x 150 of who may not grant it",
        lambda: _role("forbidden", 150, 150, 150),
        GRANTS_TOO_MUCH,
        lambda: [_editor(), _bound("editor", "stranger")],
        ready=f"{RBAC}/roles",
        user="stranger",
    ),
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
    Attack("query of 60,000 parameters", lambda: Sent("GET", f"{CORE}/configmaps?" + "a&" * 60_000), REFUSED),
    Attack("body of hard floats", _floats, ANY),
    Attack("body of long integers", _integers, frozenset({400})),
    Attack("body of empty lists", _empties, ANY),
    Attack("body of long YAML", _yaml, ANY),
    Attack("bearer token of hard floats", _hard_token, frozenset({400, 401, 431})),
    Attack("apply of 90,000 fields", _applied, ANY),
    Attack("config map of 90,000 fields", lambda: post(f"{CORE}/configmaps", _managed("managed")), ANY),
    Attack("pod of 50,000 variables", _wide_pod, ANY),
    Attack("pod of 25,000 containers", _many_containers, ANY),
    Attack("pod of 40,000 tolerations", _tolerations, ANY),
    Attack(
        "strategic patch of 25,000 variables",
        _strategic,
        ANY,
        lambda: [post(f"{CORE}/pods", _pod("patched"))],
    ),
    Attack("JSON patch of 10,000 shifts", _shifts, ANY, _target("shifted")),
    Attack("JSON patch of a deep path", _deep_path, ANY, _target("deepened")),
    Attack("40,000 owner references", _owner_references, ANY),
    Attack(
        "rule over a long list",
        lambda: _custom("rules", "long", list=list(range(20_000))),
        ANY,
        _ruled("self.list.all(x, x >= 0)"),
        ready=f"{CUSTOM}/rules",
    ),
    Attack("schema of 20,000 patterns", _wide_schema, ANY),
    Attack(
        "OpenAPI of 20,000 fields",
        lambda: Sent("GET", f"/openapi/v3/apis/{GROUP}/v1"),
        ANY,
        lambda: [_wide_schema()],
        ready=f"{CUSTOM}/wides",
    ),
    Attack(
        "object of 20,000 fields with patterns",
        lambda: _custom("wides", "long", **{f"p{n}": "abc" for n in range(20_000)}),
        ANY,
        lambda: [_wide_schema()],
        ready=f"{CUSTOM}/wides",
    ),
    Attack("schema of large patterns", _large_patterns, ANY),
    Attack(
        "500 schemas for each of 20,000 values",
        lambda: _custom("anys", "long", list=[f"x{n}" for n in range(20_000)]),
        ANY,
        _combined(),
        ready=f"{CUSTOM}/anys",
    ),
    Attack(
        "500,000 defaults of 1 MB",
        lambda: _custom("growings", "long", list=[{}] * 500_000),
        frozenset({413}),
        lambda: [_default_of_a_megabyte()],
        ready=f"{CUSTOM}/growings",
    ),
    Attack(
        "object of 1 MB behind 2,000 columns",
        lambda: _custom("printeds", "long", text="x" * 1_000_000),
        DONE,
        _columns,
        ready=f"{CUSTOM}/printeds",
    ),
    Attack(
        "table of 2,000 columns of 1 MB", lambda: Sent("GET", f"{CUSTOM}/printeds", headers=(("Accept", TABLE),)), DONE
    ),
    Attack(
        "300 containers with 10,000 defaults each",
        _defaulted,
        frozenset({413}),
        lambda: [_limited_namespace(), _limits()],
        ready="/api/v1/namespaces/limited/limitranges/all",
    ),
    Attack("role of 15,000 rules", lambda: _rules("wide", 15_000), ANY),
    Attack(
        "rules of oneself",
        lambda: post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectRulesReview",
                "spec": {"namespace": NAMESPACE},
            },
        ),
        ANY,
        lambda: [_rules("held", 12_000), _bound("held", "stranger")],
        user="stranger",
    ),
    Attack(
        "role beside 12,000 rules",
        lambda: _role("copied", 20, 20, 20),
        GRANTS_TOO_MUCH,
        lambda: [_rules("held", 12_000), _bound("held", "stranger"), _editor(), _bound("editor", "stranger")],
        ready=f"{RBAC}/roles",
        user="stranger",
    ),
    Attack("review of 200,000 groups", _review, ANY),
    _evaluated("endless", 'object.metadata.name.findAll("", 9223372036854775807) == []'),
    _evaluated(
        "dear", '!lists.range(9990).all(x, cidr("::/0").masked() == cidr("::/0") && ip("10.0.0.1") == ip("10.0.0.1"))'
    ),
    _evaluated("optional", 'dyn({"a": object.?secrets[0]}) == 1'),
    _mutated("optional-value", "object.?secrets[0]"),
    _evaluated(
        "finalizers",
        "object.metadata.?finalizers.orValue([]).all(f, f in object.metadata.finalizers)",
        finalizers=9_900,
    ),
    Attack(
        "rule without end",
        lambda: _custom("endlesses", "a", list=[1]),
        ANY,
        _ruled('self.list.all(x, string(x).findAll("", 1000000000).size() >= 0)', "endlesses"),
        ready=f"{CUSTOM}/endlesses",
    ),
    Attack("slice of 128 devices", _slice, ANY),
    Attack("claim of 1,024 selectors", _claim, ANY),
    *(_harmful(name, text) for name, text in SELECTORS.items()),
    _harmful("sorted", "[1].sortBy(v%1, 2) == []"),
    Attack("large objects as a table", _of_large(TABLE), ANY, _large_config_maps),
    Attack("large objects as YAML", _of_large("application/yaml"), ANY, _large_config_maps),
    Attack("large object as YAML", _of_large("application/yaml", "large-0"), ANY, _large_config_maps),
    Attack("deletion of large objects as YAML", _deletion_as_yaml, ANY, _large_config_maps),
    Attack("large review as YAML", _review_as_yaml, ANY),
    Attack("large write as YAML", _write_as_yaml, ANY),
    Attack("large objects as protobuf", _of_large("application/vnd.kubernetes.protobuf"), ANY, _large_config_maps),
)
