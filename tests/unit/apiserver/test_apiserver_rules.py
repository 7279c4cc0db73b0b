"""Rules of writing, cells of tables, and who may do what: pure functions of objects."""

import asyncio
import copy
import time
from contextlib import nullcontext
from typing import Any

import pytest

from actors.apiserver.api.errors import Conflict, Forbidden, Invalid, NotFound, TooLargeVersion, Unauthorized
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.api.stored import encode_object
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_rules import NodeRules
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.http.authentication.authenticator import user_of
from actors.apiserver.table import TABLE
from actors.apiserver.writes.delete import DeleteOptions, deleted
from actors.apiserver.writes.metadata import finished
from actors.apiserver.writes.update import updated
from protocols.kinds.pods.columns import ready, restarts, status
from protocols.kinds.served.columns import short_duration
from protocols.kube.objects import same
from protocols.kube.times import parse_time

PODS, NODES, LEASES = TABLE.of("pods"), TABLE.of("nodes"), TABLE.of("leases")
POD = Target(PODS, "update", "ns", "a")


def pod(**container: Any) -> dict[str, Any]:
    found = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1},
        "spec": {"containers": [{"name": "c", "image": "busybox:1", **container}]},
        "status": {"phase": "Pending"},
    }
    PODS.strategy.default(found)
    return found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (310, "5m10s"), (3600, "60m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"),
     (9 * 3600, "9h"), (50 * 3600, "2d2h"), (9 * 86400, "9d"), (800 * 86400, "2y70d"), (9 * 365 * 86400, "9y")],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert short_duration(seconds) == text


def test_defaults_of_pods() -> None:
    found = pod(resources={"limits": {"cpu": "1", "example.com/gpu": "2"}}, ports=[{"containerPort": 80}])
    container = found["spec"]["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["resources"]["requests"] == {"cpu": "1", "example.com/gpu": "2"}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    PODS.strategy.prepare_create(found)
    assert found["status"] == {"phase": "Pending", "qosClass": "Burstable"}


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"name": "Upper"}, "spec.containers[0].name"),
        ({"image": ""}, "spec.containers[0].image"),
        ({"imagePullPolicy": "Often"}, "spec.containers[0].imagePullPolicy"),
        ({"resources": {"limits": {"cpu": "many"}}}, "spec.containers[0].resources.limits[cpu]"),
        ({"resources": {"limits": {"x.y/d": "1.5"}}}, "spec.containers[0].resources.limits[x.y/d]"),
        (
            {"resources": {"limits": {"x.y/d": "2"}, "requests": {"x.y/d": "1"}}},
            "spec.containers[0].resources.requests",
        ),
        ({"resources": {"requests": {"x.y/d": "1"}}}, "spec.containers[0].resources.limits"),
    ],
)
def test_pods_that_are_refused(container: dict[str, Any], field: str) -> None:
    assert PODS.strategy.validate_create(pod(**container))[0].field == field


def test_updates_keep_what_is_not_theirs() -> None:
    old = pod()
    wanted = copy.deepcopy(old)
    wanted["metadata"].update(labels={"l": "1"}, creationTimestamp="2000-01-01T00:00:00Z", generation=9)
    wanted["spec"]["containers"][0]["image"] = "busybox:2"
    wanted["status"] = {"phase": "Running"}
    new = updated(POD, wanted, old)
    assert new is not None
    assert new["metadata"]["generation"] == 2
    assert "creationTimestamp" not in new["metadata"]
    assert new["status"] == {"phase": "Pending"}
    states = Target(PODS, "update", "ns", "a", "status")
    stated = updated(states, {**copy.deepcopy(old), "spec": {}, "status": {"phase": "Running"}}, old)
    assert stated is not None
    assert (stated["spec"], stated["status"]["phase"]) == (old["spec"], "Running")


def test_updates_that_are_refused() -> None:
    old = pod()
    with pytest.raises(Invalid, match="pod updates may not change fields"):
        updated(POD, {**copy.deepcopy(old), "spec": {**old["spec"], "restartPolicy": "Never"}}, old)
    with pytest.raises(Conflict, match="modified"):
        updated(POD, {**old, "metadata": {**old["metadata"], "resourceVersion": "6"}}, copy.deepcopy(old))
    with pytest.raises(Conflict, match="UID in precondition"):
        updated(POD, {**old, "metadata": {**old["metadata"], "uid": "other"}}, copy.deepcopy(old))
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l", "resourceVersion": "1"}}
    bare = {**lease, "metadata": {"name": "l"}}
    with pytest.raises(Invalid, match="must be specified for an update"):
        updated(Target(LEASES, "update", "ns", "l"), bare, lease)


def test_last_finalizer_ends_the_object() -> None:
    old = pod()
    old["metadata"].update(finalizers=["x/y"], deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    without = copy.deepcopy(old)
    del without["metadata"]["finalizers"]
    assert finished(updated(POD, without, old))
    more = copy.deepcopy(old)
    more["metadata"]["finalizers"].append("z/z")
    with pytest.raises(Invalid, match="no new finalizers"):
        updated(POD, more, old)


def test_deletion_waits_for_grace_and_only_gets_shorter() -> None:
    unbound, running = pod(), pod()
    gone = deleted(POD, DeleteOptions(), unbound)
    assert gone is not None
    assert (finished(gone), gone["metadata"]["deletionGracePeriodSeconds"]) == (True, 0)
    running["spec"]["nodeName"] = "n1"
    marked = deleted(POD, DeleteOptions(), running)
    assert marked is not None
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (30, 2)
    longer = deleted(POD, DeleteOptions(grace=60), copy.deepcopy(marked))
    assert longer == marked
    shorter = deleted(POD, DeleteOptions(grace=1), copy.deepcopy(marked))
    assert shorter is not None
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 1
    killed = deleted(POD, DeleteOptions(grace=0), copy.deepcopy(marked))
    assert killed is not None
    assert finished(killed)
    with pytest.raises(Conflict, match="does not match the UID in record"):
        deleted(POD, DeleteOptions(uid="v"), marked)


def test_second_deletion_without_a_period_changes_nothing() -> None:
    held = pod()
    held["spec"]["nodeName"] = "n1"
    marked = deleted(POD, DeleteOptions(grace=60), held)
    assert marked is not None
    marked["status"]["phase"] = "Succeeded"  # its node still removes it
    assert deleted(POD, DeleteOptions(policy="Orphan"), copy.deepcopy(marked)) == marked
    killed = deleted(POD, DeleteOptions(grace=0, policy="Orphan"), copy.deepcopy(marked))
    assert killed is not None
    assert killed["metadata"]["finalizers"] == ["orphan"]


def test_shortened_deletion_does_not_end_in_the_past() -> None:
    held = pod()
    held["metadata"].update(deletionTimestamp="2026-01-01T01:00:00Z", deletionGracePeriodSeconds=3600)
    shorter = deleted(POD, DeleteOptions(grace=10), held)
    assert shorter is not None
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 1
    assert parse_time(shorter["metadata"]["deletionTimestamp"]) == pytest.approx(time.time(), abs=10)


def test_stored_form_starts_with_kind_and_has_no_version() -> None:
    raw = encode_object(
        {"spec": {}, "metadata": {"name": "a", "resourceVersion": "7"}, "apiVersion": "v1", "kind": "Pod"}
    )
    assert raw == b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}'
    assert same({"metadata": {"resourceVersion": "1"}, "a": 1}, {"a": 1, "metadata": {"resourceVersion": "2"}})


def test_status_word_of_pods() -> None:
    def shown(*states: dict[str, Any], **metadata: str) -> str:
        statuses = [{"name": f"c{n}", "restartCount": n, **state} for n, state in enumerate(states)]
        return status({"metadata": metadata, "status": {"phase": "Running", "containerStatuses": statuses}})

    up = {"ready": True, "state": {"running": {}}}
    assert shown(up) == "Running"
    assert shown({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, up) == "CrashLoopBackOff"
    assert shown({"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, up) == "NotReady"
    assert shown({"state": {"terminated": {"exitCode": 3}}}) == "ExitCode:3"
    done = {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
    failed = {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    assert (shown(done), shown(done, failed), shown(done, failed, up)) == ("Completed", "OOMKilled", "OOMKilled")
    assert shown(up, deletionTimestamp="2026-01-01T00:00:00Z") == "Terminating"
    assert status({"status": {"phase": "Failed", "reason": "Evicted"}}) == "Evicted"
    two = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": {"containerStatuses": [up]}}
    assert (ready(two), restarts(two)) == ("1/2", "0")
    waiting = {"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
    assert status({"spec": {"initContainers": [{"name": "i"}]}, "status": waiting}) == "Init:ErrImagePull"


def test_init_containers_count_in_cells_until_the_pod_is_initialized() -> None:
    crashed = {"name": "i", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    shown: dict[str, Any] = {
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
        "status": {
            "initContainerStatuses": [crashed],
            "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"waiting": {"reason": "ErrImagePull"}}}],
        },
    }
    assert (status(shown), restarts(shown), ready(shown)) == ("Init:CrashLoopBackOff", "3", "0/1")
    shown["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    shown["status"]["conditions"] = [{"type": "Initialized", "status": "True"}]
    assert (status(shown), restarts(shown), ready(shown)) == ("ErrImagePull", "4", "0/2")


@pytest.mark.parametrize("odd", [{}, {"metadata": None, "spec": 3, "status": []}, {"spec": {"containers": "x"}}])
def test_no_object_breaks_a_cell_or_a_field(odd: dict[str, Any]) -> None:
    for row in TABLE.rows:
        for column in row.columns:
            column.cell(odd)
        assert all(isinstance(get(odd), str) for get in row.fields.values()), row.plural


ADMIN = User("admin", ("system:masters", "system:authenticated"))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
SHOWN = {"ns/mine": {"spec": {"nodeName": "n1"}}, "ns/theirs": {"spec": {"nodeName": "n2"}}}
POLICY = Policy()
AUTHORIZER = Authorizer(
    NodeRules(SHOWN.get, lambda name: {"spec": {"nodeName": name}}, lambda *_question: False), lambda: POLICY
)


def wants(verb: str, resource: str, name: str = "", sub: str = "", **more: Any) -> Attributes:
    return Attributes(verb, "/x", resource=resource, name=name, subresource=sub, **more)


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (wants("list", "pods", namespace="ns"), False),
        (wants("watch", "pods", fields=(("spec.nodeName", "n1"),)), True),
        (wants("watch", "pods", fields=(("spec.nodeName", "n2"),)), False),
        (wants("get", "pods", "mine", namespace="ns"), True),
        (wants("get", "pods", "theirs", namespace="ns"), False),
        (wants("delete", "pods", "theirs", namespace="ns"), False),
        (wants("patch", "pods", "mine", "status", namespace="ns"), True),
        (wants("patch", "pods", "mine", namespace="ns"), False),
        (wants("create", "pods", "mine", "binding", namespace="ns"), False),
        (wants("patch", "nodes", "n1", "status"), True),
        (wants("patch", "nodes", "n2", "status"), False),
        (wants("list", "nodes"), False),
        (wants("create", "events", namespace="ns"), True),
        (wants("list", "events", namespace="ns"), False),
        (wants("update", "leases", "n1", group="coordination.k8s.io", namespace="kube-node-lease"), True),
        (wants("update", "leases", "n1", group="coordination.k8s.io", namespace="default"), False),
        (wants("delete", "resourceslices", "n2", group="resource.k8s.io"), False),
        (wants("list", "secrets", namespace="ns"), False),
        (wants("get", "secrets", "s", namespace="ns"), False),
    ],
)
def test_what_a_node_may_do(wanted: Attributes, allowed: bool) -> None:
    assert AUTHORIZER.allows(NODE, wanted) is allowed
    assert AUTHORIZER.allows(ADMIN, wanted)


VOLUMES: dict[str, dict[str, Any]] = {
    "v": {"spec": {"claimRef": {"namespace": "ns", "name": "mine"}}},
    "free": {"spec": {}},
}


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (wants("get", "persistentvolumeclaims", "mine", namespace="ns"), True),
        (wants("patch", "persistentvolumeclaims", "mine", "status", namespace="ns"), True),
        (wants("patch", "persistentvolumeclaims", "mine", namespace="ns"), False),
        (wants("get", "persistentvolumeclaims", "other", namespace="ns"), False),
        (wants("get", "persistentvolumes", "v"), True),
        (wants("get", "persistentvolumes", "free"), False),
        (wants("list", "persistentvolumes"), False),
        (wants("get", "volumeattachments", "n1", group="storage.k8s.io"), True),
        (wants("get", "volumeattachments", "n2", group="storage.k8s.io"), False),
    ],
)
def test_node_reads_the_volumes_of_its_pods(wanted: Attributes, allowed: bool) -> None:
    def uses(*question: str) -> bool:
        return question == ("n1", "persistentvolumeclaims", "ns", "mine")

    rules = NodeRules(SHOWN.get, lambda _name: None, uses, VOLUMES.get, lambda name: {"spec": {"nodeName": name}})
    assert Authorizer(rules, lambda: POLICY).allows(NODE, wanted) is allowed


@pytest.mark.parametrize(("node", "asked"), [("n1", True), ("n2", True), ("", False)])
def test_node_is_denied_only_after_the_newest_pods_are_known(node: str, asked: bool) -> None:
    shown, seen = dict[str, Any](), list[str]()
    rules = NodeRules(shown.get, lambda _name: None, lambda *_question: False)
    user = User(f"system:node:{node}", ("system:nodes",)) if node else User("jane", ())

    async def newest_pods() -> None:
        seen.append("pods")
        shown["ns/new"] = {"spec": {"nodeName": "n1"}}

    wanted = wants("patch", "pods", "new", "status", namespace="ns")
    with nullcontext() if node == "n1" else pytest.raises(Forbidden):
        asyncio.run(Authorizer(rules, lambda: POLICY).check_again(user, wanted, newest_pods))
    assert bool(seen) is asked
    with pytest.raises(Unauthorized):
        AUTHORIZER.check(ANONYMOUS, wanted)
    with pytest.raises(Forbidden):
        AUTHORIZER.check(User("system:node:n1", ("system:authenticated",)), wanted)


UNKNOWN_SLICE = [
    wants(verb, "resourceslices", "unknown", group="resource.k8s.io") for verb in ("get", "update", "patch", "delete")
]


@pytest.mark.parametrize("wanted", [wants("get", "pods", "unknown", namespace="ns"), *UNKNOWN_SLICE])
def test_object_that_the_replica_lacks_is_no_nodes(wanted: Attributes) -> None:
    """The store may have it for another node: a read or write of it would win the race against the replica."""
    rules = NodeRules(SHOWN.get, lambda _name: None, lambda *_question: False)
    assert not Authorizer(rules, lambda: POLICY).allows(NODE, wanted)


async def test_pod_that_does_not_exist_is_not_found_once_the_newest_pods_are_known() -> None:
    wanted = wants("get", "pods", "unknown", namespace="ns")

    async def newest_pods() -> None:
        """Find none."""

    async def unknown() -> None:
        raise TooLargeVersion(2, 1)

    with pytest.raises(NotFound):
        await AUTHORIZER.check_again(NODE, wanted, newest_pods)
    with pytest.raises(Forbidden):
        await AUTHORIZER.check_again(NODE, wanted, unknown)
    with pytest.raises(Forbidden):
        await AUTHORIZER.check_again(User("jane"), wanted, newest_pods)


SCHEDULER, CONTROLLERS = "system:kube-scheduler", "system:kube-controller-manager"
DRA = "resource.k8s.io"


@pytest.mark.parametrize(
    ("user", "verb", "resource", "sub", "allowed"),
    [
        (SCHEDULER, "update", "resourceclaims", "status", True),
        (SCHEDULER, "update", "resourceclaims", "", True),
        (SCHEDULER, "create", "resourceclaims", "", True),
        (SCHEDULER, "watch", "resourceslicepatches", "", True),
        (SCHEDULER, "watch", "devicetaintrules", "", True),
        (SCHEDULER, "update", "resourceslices", "", False),
        (SCHEDULER, "create", "resourceslicepatches", "", False),
        (SCHEDULER, "update", "deviceclasses", "", False),
        (SCHEDULER, "patch", "devicetaintrules", "status", False),
        (CONTROLLERS, "create", "resourceclaims", "", True),
        (CONTROLLERS, "update", "resourceclaims", "status", True),
        (CONTROLLERS, "patch", "devicetaintrules", "status", True),
        (CONTROLLERS, "create", "resourceslices", "", False),
        (CONTROLLERS, "update", "deviceclasses", "", False),
        (CONTROLLERS, "create", "resourceslicepatches", "", False),
    ],
)
def test_what_the_planes_users_may_do_with_devices(
    user: str, verb: str, resource: str, sub: str, allowed: bool
) -> None:
    asked = Attributes(verb, "", group=DRA, resource=resource, name="x", subresource=sub)
    assert AUTHORIZER.allows(User(user), asked) is allowed


def test_identity_comes_from_the_certificate_alone() -> None:
    subject = ((("organizationName", "system:nodes"),), (("commonName", "system:node:n1"),))
    assert user_of({"subject": subject}) == User("system:node:n1", ("system:nodes", "system:authenticated"))
    assert user_of(None) == ANONYMOUS
    with pytest.raises(Unauthorized):
        user_of({"subject": ((("organizationName", "system:masters"),),)})
    uid, named = (("1.3.6.1.4.1.57683.2", "u-1"),), (("commonName", "a"),)
    extra = (("authentication.kubernetes.io/credential-id", ("X509SHA256=ab",)),)
    assert user_of({"subject": (named, uid)}, "ab") == User("a", ("system:authenticated",), "u-1", extra)
    for wrong in ((uid, uid), ((("1.3.6.1.4.1.57683.2", ""),),)):
        with pytest.raises(Unauthorized):
            user_of({"subject": (named, *wrong)})
    AUTHORIZER.check(ANONYMOUS, Attributes("get", "/healthz"))
    with pytest.raises(Unauthorized):
        AUTHORIZER.check(ANONYMOUS, Attributes("get", "/readyz/etcd"))
    AUTHORIZER.check(NODE, Attributes("get", "/apis/resource.k8s.io"))
    with pytest.raises(Forbidden, match='cannot get path "/metrics"'):
        AUTHORIZER.check(NODE, Attributes("get", "/metrics"))
