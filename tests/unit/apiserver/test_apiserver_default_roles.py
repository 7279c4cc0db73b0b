"""The default roles: complete, valid, and what Kubernetes' own programs may do with them."""

import copy
from typing import Any

import pytest

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.bootstrap.roles import authentication, updated
from actors.apiserver.table import TABLE
from protocols.kinds.rbac.cover import uncovered
from protocols.kinds.rbac.defaults import default_objects, missing_in
from protocols.kinds.rbac.policy_rule import read_rules
from protocols.kube.meta import key_of

OBJECTS = default_objects()
CONTROLLERS = """
attachdetach-controller certificate-controller clusterrole-aggregation-controller cronjob-controller
daemon-set-controller deployment-controller device-taint-eviction-controller disruption-controller endpoint-controller
endpointslice-controller endpointslicemirroring-controller ephemeral-volume-controller expand-controller
generic-garbage-collector horizontal-pod-autoscaler job-controller legacy-service-account-token-cleaner
namespace-controller node-controller persistent-volume-binder pod-garbage-collector pv-protection-controller
pvc-protection-controller replicaset-controller replication-controller resource-claim-controller
resourcequota-controller root-ca-cert-publisher route-controller selinux-warning-controller service-account-controller
service-cidrs-controller service-controller statefulset-controller ttl-after-finished-controller ttl-controller
validatingadmissionpolicy-status-controller volumeattributesclass-protection-controller
"""
USER_ROLES = """
admin cluster-admin edit system:aggregate-to-admin system:aggregate-to-edit system:aggregate-to-view
system:auth-delegator system:basic-user system:certificates.k8s.io:certificatesigningrequests:nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver system:certificates.k8s.io:kubelet-serving-approver
system:certificates.k8s.io:legacy-unknown-approver system:discovery system:heapster system:kube-aggregator
system:kube-controller-manager system:kube-dns system:kube-scheduler system:kubelet-api-admin system:monitoring
system:node system:node-bootstrapper system:node-problem-detector system:node-proxier
system:persistent-volume-provisioner system:public-info-viewer system:service-account-issuer-discovery
system:volume-scheduler view
"""
BOUND = """
cluster-admin system:basic-user system:discovery system:kube-controller-manager system:kube-dns system:kube-scheduler
system:kubelet-api-admin system:monitoring system:node system:node-proxier system:public-info-viewer
system:service-account-issuer-discovery system:volume-scheduler
"""
NAMESPACE_ROLES = [
    "kube-public/system:controller:bootstrap-signer",
    "kube-system/extension-apiserver-authentication-reader",
    "kube-system/system::leader-locking-kube-controller-manager",
    "kube-system/system::leader-locking-kube-scheduler",
    "kube-system/system:controller:bootstrap-signer",
    "kube-system/system:controller:cloud-provider",
    "kube-system/system:controller:token-cleaner",
]


def keys(kind: str) -> list[str]:
    return sorted(key_of(obj) for obj in OBJECTS if obj["kind"] == kind)


def test_default_objects_are_upstreams() -> None:
    controllers = [f"system:controller:{name}" for name in CONTROLLERS.split()]
    assert keys("ClusterRole") == sorted([*USER_ROLES.split(), *controllers])
    assert keys("ClusterRoleBinding") == sorted([*BOUND.split(), *controllers])
    assert keys("Role") == NAMESPACE_ROLES
    reader = "kube-system/system::extension-apiserver-authentication-reader"
    assert keys("RoleBinding") == sorted([reader, *(key for key in NAMESPACE_ROLES if "extension" not in key)])


def test_default_objects_are_valid_and_sorted() -> None:
    for obj in OBJECTS:
        row = next(each for each in TABLE.built_in if each.kind == obj["kind"] and each.group.startswith("rbac"))
        assert row.strategy.validate_create(copy.deepcopy(obj)) == [], key_of(obj)
        assert obj["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults", key_of(obj)
        for rule in obj.get("rules", ()):
            assert all(values == sorted(set(values)) for values in rule.values()), (key_of(obj), rule)
        if "roleRef" in obj:
            kind, namespace = obj["roleRef"]["kind"], obj["metadata"].get("namespace")
            name = obj["roleRef"]["name"]
            assert (f"{namespace}/{name}" if namespace else name) in keys(kind), key_of(obj)


def policy() -> Policy:
    made = Policy()
    for obj in OBJECTS:
        made.put(obj["kind"], key_of(obj), obj)
    return made


SCHEDULER, MANAGER = "system:kube-scheduler", "system:kube-controller-manager"
SYSTEM = {"namespace": "kube-system"}
LEASES = {"group": "coordination.k8s.io", "resource": "leases"}
QUESTIONS: list[tuple[str, str, dict[str, str], bool]] = [
    (SCHEDULER, "create", {"resource": "pods", "subresource": "binding", "namespace": "ns"}, True),
    (SCHEDULER, "update", {"resource": "pods", "namespace": "ns"}, False),
    (SCHEDULER, "watch", {"group": "storage.k8s.io", "resource": "storageclasses"}, True),
    (SCHEDULER, "watch", {"group": "policy", "resource": "poddisruptionbudgets"}, True),
    (SCHEDULER, "patch", {"resource": "persistentvolumeclaims", "namespace": "ns"}, True),
    (SCHEDULER, "update", {**LEASES, **SYSTEM, "name": "kube-scheduler"}, True),
    (SCHEDULER, "update", {**LEASES, "namespace": "ns", "name": "kube-controller-manager"}, False),
    (SCHEDULER, "get", {"resource": "configmaps", **SYSTEM, "name": "extension-apiserver-authentication"}, True),
    (SCHEDULER, "get", {"resource": "configmaps", **SYSTEM, "name": "other"}, False),
    (SCHEDULER, "get", {"resource": "secrets", **SYSTEM}, False),
    (MANAGER, "create", {"resource": "serviceaccounts", "subresource": "token", **SYSTEM}, True),
    (MANAGER, "watch", {"group": "example.com", "resource": "widgets"}, True),
    (MANAGER, "delete", {"resource": "pods", "namespace": "ns"}, False),
    ("system:kube-proxy", "watch", {"group": "discovery.k8s.io", "resource": "endpointslices"}, True),
    ("system:serviceaccount:kube-system:job-controller", "create", {"resource": "pods", "namespace": "ns"}, True),
    ("system:serviceaccount:ns:job-controller", "create", {"resource": "pods", "namespace": "ns"}, False),
    ("system:serviceaccount:kube-system:namespace-controller", "deletecollection", {"resource": "secrets"}, True),
    ("kube-apiserver-kubelet-client", "create", {"resource": "nodes", "subresource": "proxy"}, True),
    ("kube-apiserver-kubelet-client", "get", {"resource": "nodes", "subresource": "pods"}, True),
    ("kube-apiserver-kubelet-client", "list", {"resource": "pods"}, False),
]


@pytest.mark.parametrize(("user", "verb", "wanted", "allowed"), QUESTIONS)
def test_default_roles_decide_as_upstream(user: str, verb: str, wanted: dict[str, Any], allowed: bool) -> None:
    assert policy().decide(User(user), Attributes(verb, "", **wanted)).allowed is allowed


def test_aggregated_roles_have_the_rules_of_their_parts() -> None:
    made = policy()
    for name in ("view", "edit", "admin"):
        stored = next(obj for obj in OBJECTS if key_of(obj) == name)
        assert uncovered(read_rules(stored), made.cluster_rules(name)) == ()
        assert uncovered(made.cluster_rules(name), read_rules(stored)) == ()


def test_stored_role_with_equal_rights_in_other_words_is_complete() -> None:
    wanted = next(obj for obj in OBJECTS if key_of(obj) == "system:node-bootstrapper")
    group, resources = ["certificates.k8s.io"], ["certificatesigningrequests", "other"]
    rules = [{"verbs": [verb], "apiGroups": group, "resources": resources} for verb in ("create", "get", "list")]
    stored = {**wanted, "rules": rules}
    assert missing_in(stored, wanted) == {**stored, "rules": [*rules, *wanted["rules"]]}
    stored["rules"] = [*rules, {"verbs": ["watch"], "apiGroups": ["*"], "resources": ["*"]}]
    assert missing_in(stored, wanted) is None


def test_authentication_config_map_keeps_keys_of_others() -> None:
    wanted, front = authentication("new"), {"requestheader-client-ca-file": "front"}
    stored = {**authentication("old"), "data": {"client-ca-file": "old", **front}}
    assert updated(stored, wanted) == {**stored, "data": {"client-ca-file": "new", **front}}
    assert updated(wanted, wanted) is None
    assert updated(wanted, authentication("new", "front"))["data"].items() >= front.items()  # type: ignore[index]
