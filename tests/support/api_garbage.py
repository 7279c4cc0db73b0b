"""Strategies of everything a client could send to the API by mistake or malice: queries, bodies, patches."""

import json
from typing import Any

from hypothesis import strategies as st

from protocols.kube.meta import Object

DEFAULT = "/api/v1/namespaces/default"
RESOURCE = "/apis/resource.k8s.io"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

words = st.text(max_size=12)
LISTED = [
    f"{DEFAULT}/pods",
    "/api/v1/configmaps",
    "/api/v1/nodes",
    "/api/v1/events",
    f"{RESOURCE}/v1/resourceslices",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/namespaces/none/pods",
]
ACCEPTS = [
    "",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch;q=0.9, text/html;level=1",
    "text/html",
    ";;,=",
]
LABELS = ["a=b", "a in (b,c)", "a notin ()", "!a", "a>1", "a>x", "a==b,c!=d", "a===b", "x" * 70 + "=1", "a in (", ","]
FIELDS = ["metadata.name=a", "metadata.name=a,metadata.name=b", "spec.nodeName=n1", "a=b=c", "metadata.name!=x\\,", "x"]
NUMBERS = ["", "0", "1", "2", "-1", "+1", "500", "abc", "9223372036854775808", "1.5", "1e3", "9" * 5000, "１", "²"]
TOKENS = ["", "e30", "!!!", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0", "A" * 5000]
FLAGS = ["", "true", "false", "1", "0", "TRUE", "yes"]

selectors = st.one_of(words, st.text("ab=!,()<> in.-/\\\"'\0é", max_size=20), st.sampled_from(LABELS + FIELDS))
numbers = st.one_of(st.sampled_from(NUMBERS), words)
flags = st.one_of(st.sampled_from(FLAGS), words)
READING: Object = {
    "labelSelector": selectors,
    "fieldSelector": selectors,
    "resourceVersion": numbers,
    "resourceVersionMatch": st.one_of(st.sampled_from(["", "Exact", "NotOlderThan", "x"]), words),
    "limit": numbers,
    "continue": st.one_of(st.sampled_from(TOKENS), words),
    "sendInitialEvents": flags,
    "allowWatchBookmarks": flags,
    "pretty": flags,
    "includeObject": words,
    "timeout": st.one_of(st.sampled_from(["", "0", "1s", "1h1m", "-1s", ".", "1", "9" * 400 + "h"]), words),
}
lists = st.fixed_dictionaries({}, optional=READING)
watches = st.fixed_dictionaries({"watch": flags, "timeoutSeconds": st.just("1")}, optional=READING)
WRITING: Object = {
    "dryRun": st.sampled_from(["All", "", "x"]),
    "fieldManager": st.one_of(words, st.sampled_from(["m", "x" * 129])),
    "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    "force": st.sampled_from(["true", "false", ""]),
    "gracePeriodSeconds": numbers,
    "propagationPolicy": st.sampled_from(["Orphan", "Background", "Foreground", "x", ""]),
    "orphanDependents": flags,
}
writes = st.fixed_dictionaries({}, optional=WRITING)

PATCHES = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
]
BODIES = ["application/json", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", ""]
STRANGE = ["text/plain", "application/apply-patch+cbor", "\xff;;=", *PATCHES, *BODIES]
METHODS = ["PATCH", "PATCH", "PATCH", "PUT", "POST", "DELETE"]
kinds_of_writes = st.sampled_from(METHODS).flatmap(
    lambda method: st.tuples(
        st.just(method), st.sampled_from(PATCHES if method == "PATCH" else BODIES) | st.sampled_from(STRANGE)
    )
)
"""(method, content type): half of them fit each other."""
WORDS = """metadata spec status name namespace labels annotations kind apiVersion containers image finalizers
ownerReferences uid resourceVersion managedFields data conditions type env ports $patch $retainKeys containerPort
$setElementOrder/containers $deleteFromPrimitiveList/finalizers volumes tolerations devices rules subjects roleRef
target deletionTimestamp generateName creationTimestamp limits resources requests config opaque parameters
dryRun preconditions gracePeriodSeconds propagationPolicy orphanDependents deleteOptions
ignoreStoreReadErrorWithClusterBreakingPotential
boundObjectRef audiences expirationSeconds fieldValidation aggregationRule clusterRoleSelectors matchLabels"""
KEYS = WORDS.split()
POINTERS = [
    "",
    "/",
    "/metadata",
    "/metadata/labels/a",
    "/spec/containers/0",
    "/spec/containers/-",
    "/spec/containers/01",
]
POINTERS += ["/spec/containers/99999999999", "/metadata~1x", "/~", "/kind", "/spec", "/metadata/finalizers/-"]
PLAIN = ["a", "default", "replace", "delete", "merge", "1", "100m", "9" * 400, "2026-01-01T00:00:00Z", "v1", "\0"]

keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=5))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([10**400, -(10**400), 10**4000, 1.7e308, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(PLAIN),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(keys, values, max_size=5)
pointers = st.one_of(
    st.sampled_from(POINTERS), st.lists(keys, max_size=4).map(lambda path: "/" + "/".join(path)), st.text(max_size=6)
)
OPERATIONS = ["add", "remove", "replace", "move", "copy", "test", "_"]
operations = st.fixed_dictionaries(
    {},
    optional={
        "op": st.one_of(st.sampled_from(OPERATIONS), values),
        "path": st.one_of(pointers, values),
        "from": st.one_of(pointers, values),
        "value": values,
    },
)
RAW = [
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"\0", b"\xef\xbb\xbf{}", b'{"a":1e999}', b'{"a":1,"a":2}'),
    *(b'{"a":"\\ud800"}', b'{"kind":"\xff"}', b"k8s\0", b"k8s\0\xff\xff\xff", b"k8s\0\n\x06\n\x02v1\x12\0"),
    *(b"{" * 3000, b"[" * 100_000, b'{"a":' * 50_000, b'{"a":' * 190 + b"1" + b"}" * 190, b"- " * 5000, b"? " * 3000),
    *(b"a: " * 3000, b"!!python/object/apply:os.system [ls]", b"%YAML 9.9\n---\n{}", b"a: .nan", b"1: 2", b"{[1]: 2}"),
    *(b'{"a":' + b"9" * 5000 + b"}", b"a: 0x" + b"f" * 5000, b"0x" + b"f" * 5000 + b": 1", b"a: " + b"9" * 5000),
    *(b"a: !!binary x", b"---\n---\n{}", b"a: 0o" + b"7" * 30, b"&a [*a]", b"a: &b [1]\nc: *b", b"<<: {a: b}"),
]


def as_json(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda value: json.dumps(value).encode())


bodies = st.one_of(
    st.sampled_from(RAW),
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda tail: b"k8s\0" + tail),
    as_json(values),
    as_json(st.lists(operations, max_size=3)),
    as_json(objects),
)
"""Beside these, whole objects of a kind with garbage laid over them: see `spoiled`."""

POD = {"containers": [{"name": "c", "image": "i"}]}
SLICE = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": []}
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
DEFINED: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [
                                    {"rule": "self.size < 90 || self.containers.all(c, c.name != '')"},
                                    {
                                        "rule": "!has(self.containers) || self.size >= oldSelf.size - 9",
                                        "message": "shrinks",
                                    },
                                ],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 0, "default": 1},
                                    "containers": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}},
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                    "data": {"x-kubernetes-preserve-unknown-fields": True},
                                    "ports": {"x-kubernetes-int-or-string": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
TAINT = {"key": "k", "effect": "None"}
OLD_SLICE: Object = {
    "driver": "d.example.com",
    "pool": {"name": "p", "resourceSliceCount": 1},
    "allNodes": True,
    "devices": [{"name": "a", "basic": {"attributes": {"x": {"int": 1}}, "taints": [TAINT]}}],
}
OLD_CLAIM: Object = {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
SPOILED = {**DEFINED, "spec": {**DEFINED["spec"], "group": "example.org"}}
"""Named things.example.com by `DEFINED`, so that most of what is made of it is refused."""
KINDS: list[tuple[str, Object]] = [
    (f"{DEFAULT}/pods", {"apiVersion": "v1", "kind": "Pod", "spec": POD}),
    (f"{DEFAULT}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap"}),
    (f"{DEFAULT}/secrets", {"apiVersion": "v1", "kind": "Secret"}),
    (f"{DEFAULT}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount"}),
    (f"{DEFAULT}/events", {"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"}}),
    ("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "spec": {}}),
    (f"{DEFAULT}/services", {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}]}}),
    ("/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}}),
    ("/apis/storage.k8s.io/v1/csinodes", {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {}}),
    (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": []},
    ),
    (
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"namespace": "default"}},
    ),
    (THINGS, {"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"size": 1}}),
    (THINGS, {"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"size": 1}}),
    (DEFINITIONS, SPOILED),
    ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}},
    ),
    (f"{RESOURCE}/v1/resourceslices", {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": SLICE}),
    (
        f"{RESOURCE}/v1/namespaces/default/resourceclaims",
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": CLAIM},
    ),
    (
        f"{RESOURCE}/v1beta1/resourceslices",
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "spec": OLD_SLICE},
    ),
    (
        f"{RESOURCE}/v1beta1/namespaces/default/resourceclaims",
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "spec": OLD_CLAIM},
    ),
    (
        f"{RESOURCE}/v1alpha3/devicetaintrules",
        {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "spec": {"taint": TAINT}},
    ),
    (
        f"{RESOURCE}/v1alpha3/resourceslicepatches",
        {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "spec": {"devices": {}}},
    ),
    (f"{RBAC}/clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}),
    (
        f"{RBAC}/namespaces/default/rolebindings",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "roleRef": ROLE},
    ),
]


def spoiled(base: Object, garbage: Object) -> Object:
    """`base` with `garbage` laid over it, map by map."""
    found = dict(base)
    for key, value in garbage.items():
        before = found.get(key)
        found[key] = spoiled(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found
