"""Rules of pod specs: what no kubelet can run is rejected, with upstream's reasons and paths."""

import copy
import time
from typing import Any

import pytest

from protocols.kinds.pods.annotations import SECCOMP, SECCOMP_POD
from protocols.kinds.pods.changes import spec_change_causes
from protocols.kinds.pods.pods import PODS
from protocols.kinds.workloads.templates import template_causes
from protocols.lifecycle.pods.resources import qos_class
from tests.support.pod_faults import faults, pod

Object = dict[str, Any]
LIVE = {"httpGet": {"port": 8080}}
VOLUME = {"name": "v", "emptyDir": {}}
GATE: Object = {"schedulingGates": [{"name": "example.com/g"}]}


def container_faults(**fields: Any) -> list[str]:
    return [fault.replace("containers[0].", "") for fault in faults(fields)]


RESTART, RESIZE = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "initContainers[0].resizePolicy"
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}


def file_variable(**more: str) -> Object:
    return {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "/a", "key": "k", **more}}}


CONTAINERS: list[tuple[Object, str]] = [
    ({"ports": [{"containerPort": 0}]}, "Required ports[0].containerPort"),
    ({"ports": [{"containerPort": 70000}]}, "Invalid ports[0].containerPort"),
    ({"ports": [{"containerPort": 1, "protocol": "XXX"}]}, "NotSupported ports[0].protocol"),
    ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}, "Duplicate ports[1].name"),
    ({"ports": [{"containerPort": 1, "hostPort": 9}] * 2}, "Duplicate ports[1].hostPort"),
    ({"livenessProbe": {"tcpSocket": {"port": 0}}}, "Invalid livenessProbe.tcpSocket.port"),
    ({"livenessProbe": {}}, "Required livenessProbe"),
    ({"livenessProbe": {**LIVE, "exec": {"command": ["a"]}}}, "Forbidden livenessProbe.httpGet"),
    ({"livenessProbe": {**LIVE, "successThreshold": 2}}, "Invalid livenessProbe.successThreshold"),
    ({"readinessProbe": {**LIVE, "periodSeconds": -1}}, "Invalid readinessProbe.periodSeconds"),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, "Invalid lifecycle.preStop.sleep"),
    ({"lifecycle": {"postStart": {}}}, "Required lifecycle.postStart"),
    ({"lifecycle": {"stopSignal": "SIGTERM"}}, "Forbidden lifecycle.stopSignal"),
    ({"env": [{"name": "A=B"}]}, "Invalid env[0].name"),
    ({"env": [{"name": "A", "valueFrom": {}}]}, "Invalid env[0].valueFrom"),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]},
        "Invalid env[0].valueFrom.fieldRef.fieldPath",
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
        "NotSupported env[0].valueFrom.resourceFieldRef.resource",
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        "Required env[0].valueFrom.secretKeyRef.key",
    ),
    ({"envFrom": [{}]}, "Invalid envFrom"),
    ({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}, "NotSupported resizePolicy"),
    ({"resources": {"limits": {"gpu": "1"}}}, "Invalid resources.limits[gpu]"),
    ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, "Invalid resources.requests"),
    ({"resources": {"claims": [{"name": "x"}]}}, "NotFound resources.claims[0]"),
    (
        {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]},
        "Required restartPolicy",
    ),
    ({"restartPolicy": "Sometimes"}, "NotSupported restartPolicy"),
    ({"restartPolicy": "Never", "restartPolicyRules": [RULE] * 21}, "TooMany restartPolicyRules"),
    ({"resizePolicy": RESTART * 2}, "Duplicate resizePolicy[1]"),
    ({"env": [file_variable(key="A=B")]}, "Invalid env[0].valueFrom.fileKeyRef.key"),
    ({"env": [file_variable(path="../a")]}, "Invalid env[0].valueFrom.fileKeyRef.path"),
    ({"env": [file_variable(volumeName="w")]}, "NotFound env[0].valueFrom.fileKeyRef.volumeName"),
    ({"terminationMessagePolicy": "Nope"}, "NotSupported terminationMessagePolicy"),
    ({"securityContext": {"runAsUser": -1}}, "Invalid securityContext.runAsUser"),
    (
        {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
        "Required securityContext.seccompProfile.localhostProfile",
    ),
    ({"securityContext": {"allowPrivilegeEscalation": False, "privileged": True}}, "Invalid securityContext"),
    ({"image": " a"}, "Invalid image"),
]


@pytest.mark.parametrize(("container", "fault"), CONTAINERS)
def test_container_with_one_fault_is_rejected_at_its_field(container: Object, fault: str) -> None:
    assert fault in container_faults(**container)


SPECS: list[tuple[Object, str]] = [
    ({"volumes": [VOLUME, VOLUME]}, "Duplicate volumes[1].name"),
    ({"volumes": [{"emptyDir": {}}]}, "Required volumes[0].name"),
    ({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}, "Forbidden volumes[0].hostPath"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, "Invalid volumes[0].hostPath.path"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/", "type": "X"}}]}, "NotSupported volumes[0].hostPath.type"),
    ({"volumes": [{"name": "v", "secret": {}}]}, "Required volumes[0].secret.secretName"),
    (
        {"volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 512}}]},
        "Invalid volumes[0].configMap.defaultMode",
    ),
    ({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "p"}}]}, "Invalid volumes[0].nfs.path"),
    ({"volumes": [{"name": "v", "csi": {"driver": "a_b"}}]}, "Invalid volumes[0].csi.driver"),
    ({"volumes": [{"name": "v", "image": {}}]}, "Required volumes[0].image.reference"),
    ({"volumes": [{"name": "v", "ephemeral": {}}]}, "Required volumes[0].ephemeral.volumeClaimTemplate"),
    ({"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}]}, "Required volumes[0].downwardAPI"),
    (
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}}]},
        "Forbidden volumes[0].projected.sources[0]",
    ),
    ({"tolerations": [{}]}, "Invalid tolerations[0].operator"),
    ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, "Invalid tolerations[0].effect"),
    ({"nodeSelector": {"a b": "c"}}, "Invalid nodeSelector"),
    ({"dnsPolicy": "None"}, "Required dnsConfig"),
    ({"dnsConfig": {"nameservers": ["nope"]}}, "Invalid dnsConfig.nameservers[0]"),
    ({"hostAliases": [{"ip": "nope"}]}, "Invalid hostAliases[0].ip"),
    ({"securityContext": {"sysctls": [{"name": "a..b", "value": "1"}]}}, "Invalid securityContext.sysctls[0].name"),
    ({"securityContext": {"sysctls": [{"name": "a.b"}, {"name": "a.b"}]}}, "Duplicate securityContext.sysctls[1].name"),
    (
        {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]}},
        "Invalid securityContext.sysctls[0].name",
    ),
    ({"securityContext": {"fsGroupChangePolicy": "X"}}, "NotSupported securityContext.fsGroupChangePolicy"),
    ({"schedulingGates": [{"name": "a b"}]}, "Invalid schedulingGates[0]"),
    ({"readinessGates": [{"conditionType": ""}]}, "Invalid readinessGates[0].conditionType"),
    (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        "Invalid topologySpreadConstraints[0].maxSkew",
    ),
    (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        "Required affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
    ),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
        "Required affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
    ),
    ({"activeDeadlineSeconds": 0}, "Invalid activeDeadlineSeconds"),
    ({"os": {"name": "plan9"}}, "NotSupported os"),
    ({"hostname": "A"}, "Invalid hostname"),
    ({"initContainers": [{"name": "c", "image": "i"}]}, "Duplicate initContainers[0].name"),
    ({"initContainers": [{"name": "i", "image": "i", "resizePolicy": RESTART}]}, f"Invalid {RESIZE}[0].restartPolicy"),
    (
        {"initContainers": [{"name": "i", "image": "i", "livenessProbe": LIVE}]},
        "Forbidden initContainers[0].livenessProbe",
    ),
]


@pytest.mark.parametrize(
    ("system", "signal", "wrong"),
    [("linux", "SIGRTMAX-14", []), ("windows", "SIGHUP", ["NotSupported containers[0].lifecycle.stopSignal"])],
)
def test_stop_signal_is_one_of_the_operating_system(system: str, signal: str, wrong: list[str]) -> None:
    assert faults({"lifecycle": {"stopSignal": signal}}, os={"name": system}) == wrong


@pytest.mark.parametrize(("spec", "fault"), SPECS)
def test_spec_with_one_fault_is_rejected_at_its_field(spec: Object, fault: str) -> None:
    assert fault in faults(**spec)


def test_mount_of_a_volume_with_faults_is_not_found() -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]}
    assert "NotFound containers[0].volumeMounts[0].name" in faults(mounts)
    assert "NotFound containers[0].volumeMounts[0].name" in faults(mounts, volumes=[{"name": "v", "secret": {}}])
    assert faults(mounts, volumes=[VOLUME]) == ["Invalid containers[0].volumeMounts[1].mountPath"]


def test_file_of_variables_is_in_an_empty_directory() -> None:
    variables = {"env": [file_variable()]}
    assert faults(variables, volumes=[VOLUME]) == []
    found = faults(variables, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert found == ["Invalid containers[0].env[0].valueFrom.fileKeyRef.volumeName"]


def test_restart_rule_may_name_no_exit_code() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "NotIn"}}]
    assert faults({"restartPolicy": "Never", "restartPolicyRules": rules}) == []
    many = [{"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}]
    found = container_faults(restartPolicy="Never", restartPolicyRules=many)
    assert found == ["TooMany restartPolicyRules[0].exitCodes.values"]


def test_second_source_of_a_volume_is_named_as_upstream_names_it() -> None:
    volume = {"name": "v", "emptyDir": {}, "cephfs": {}, "downwardAPI": {}}
    assert faults({}, volumes=[volume]) == ["Forbidden volumes[0].cephFS", "Forbidden volumes[0].downwarAPI"]


def test_block_device_of_a_directory_is_rejected() -> None:
    devices = {"volumeDevices": [{"name": "v", "devicePath": "/dev/v"}]}
    assert faults(devices, volumes=[VOLUME]) == ["Invalid containers[0].volumeDevices[0].name"]
    assert faults(devices, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]) == []


def test_pod_with_every_feature_is_accepted() -> None:
    container = {
        "ports": [{"containerPort": 80, "name": "http", "hostPort": 80}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
        "livenessProbe": {"grpc": {"port": 9}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 2}}},
        "resources": {"limits": {"cpu": "1", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}],
        "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}},
    }
    spec = {
        "volumes": [VOLUME, {"name": "nothing"}],
        "tolerations": [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}],
        "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a_b.c."]},
        "hostAliases": [{"ip": "::1", "hostnames": ["a.b"]}],
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
        **GATE,
    }
    assert faults(container, **spec) == []


def test_pod_with_thousands_of_volumes_is_checked_in_linear_time() -> None:
    names = [f"v{number}" for number in range(4000)]
    mounts = {"volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in names]}
    made = pod(mounts, volumes=[{"name": name, "emptyDir": {}} for name in names])
    began = time.process_time()
    assert PODS.strategy.validate_create(made) == []
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("metadata.annotations['A/b']", []),
        ("metadata.labels['a']['b']", ["Invalid"]),
        ("spec['a']", ["Invalid"]),
        ("['a']", ["Invalid"]),
        ("['" * 2**19, ["Invalid"]),
    ],
)
def test_field_path_with_a_subscript_is_checked_in_linear_time(path: str, wrong: list[str]) -> None:
    began = time.process_time()
    found = faults({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})
    assert [fault.partition(" ")[0] for fault in found] == wrong
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), (f"a@sha256:{'0' * 64}", "IfNotPresent"),
     ("h:5000/a", "Always"), ("Nope", "IfNotPresent"), ("a" * 300, "IfNotPresent"), ("a" * 64, "IfNotPresent")],
)  # fmt: skip
def test_pull_policy_of_an_image_defaults_by_its_tag(image: str, policy: str) -> None:
    assert pod({"image": image})["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_sources_and_handlers_have_upstreams_defaults() -> None:
    token = {"serviceAccountToken": {"path": "t"}}
    made = pod(
        {"livenessProbe": copy.deepcopy(LIVE)},
        volumes=[{"name": "v"}, {"name": "p", "projected": {"sources": [token]}}],
    )
    volumes = made["spec"]["volumes"]
    assert volumes[0] == VOLUME
    assert volumes[1]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    assert made["spec"]["containers"][0]["livenessProbe"]["httpGet"] == {"port": 8080, "path": "/", "scheme": "HTTP"}
    assert (
        pod({"ports": [{"containerPort": 5}]}, hostNetwork=True)["spec"]["containers"][0]["ports"][0]["hostPort"] == 5
    )


ARMOR = "container.apparmor.security.beta.kubernetes.io/"


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("controller.kubernetes.io/pod-deletion-cost", "-7", ""),
        ("controller.kubernetes.io/pod-deletion-cost", "007", "must be a 32bit integer"),
        ("controller.kubernetes.io/pod-deletion-cost", "2147483648", "must be a 32bit integer"),
        ("seccomp.security.alpha.kubernetes.io/pod", "docker/default", ""),
        ("seccomp.security.alpha.kubernetes.io/pod", "nope", "must be a valid seccomp profile"),
        ("container.seccomp.security.alpha.kubernetes.io/c", "localhost/../a", "must not contain '..'"),
        (f"{ARMOR}c", "nope", 'invalid AppArmor profile name: "nope"'),
        (f"{ARMOR}other", "unconfined", "container not found"),
    ],
)
def test_annotation_of_a_pod_is_checked_where_it_changes(key: str, value: str, fault: str) -> None:
    old, new = pod(), pod()
    new["metadata"]["annotations"] = {key: value}
    template = {"metadata": new["metadata"], "spec": new["spec"]}
    for causes in (PODS.strategy.validate_create(new), template_causes("t", template)):
        assert [cause.message.rpartition(": ")[2] for cause in causes] == [fault.rpartition(": ")[2]] * bool(fault)
    assert bool(PODS.strategy.validate_update(new, old)) == bool(fault)
    assert PODS.strategy.validate_status(new, new) == []


def test_apparmor_profiles_of_annotations_are_those_of_the_containers() -> None:
    made = pod(initContainers=[{"name": "i", "image": "b"}])
    made["metadata"]["annotations"] = {f"{ARMOR}c": "localhost/a", f"{ARMOR}i": "localhost/ "}
    PODS.strategy.prepare_create(made)
    assert made["spec"]["containers"][0]["securityContext"] == {
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}
    }
    assert "securityContext" not in made["spec"]["initContainers"][0]
    changed = copy.deepcopy(made)
    changed["metadata"]["annotations"] = {f"{ARMOR}c": "unconfined"}
    assert [cause.message for cause in PODS.strategy.validate_update(changed, made)] == [
        "Forbidden: may not remove or update AppArmor annotations"
    ] * 2


def profiled(field: str, **profile: str) -> Object:
    return {"securityContext": {field: profile}}


@pytest.mark.parametrize(
    ("key", "value", "container", "spec", "found"),
    [
        (f"{SECCOMP}c", "docker/default", profiled("seccompProfile", type="RuntimeDefault"), {}, ""),
        (f"{SECCOMP}c", "unconfined", profiled("seccompProfile", type="RuntimeDefault"), {}, "seccompProfile.type"),
        (
            f"{SECCOMP}c",
            "localhost/a",
            profiled("seccompProfile", type="Localhost", localhostProfile="b"),
            {},
            "seccompProfile.localhostProfile",
        ),
        (SECCOMP_POD, "unconfined", {}, profiled("seccompProfile", type="RuntimeDefault"), "seccompProfile.type"),
        (f"{ARMOR}c", "unconfined", profiled("appArmorProfile", type="RuntimeDefault"), {}, "appArmorProfile.type"),
        (f"{ARMOR}c", "unconfined", {}, profiled("appArmorProfile", type="RuntimeDefault"), "appArmorProfile.type"),
    ],
)
def test_profiles_of_annotations_and_fields_are_the_same(
    key: str, value: str, container: Object, spec: Object, found: str
) -> None:
    made = pod(container, **spec)
    made["metadata"]["annotations"] = {key: value}
    for causes in (PODS.strategy.validate_create(made), template_causes("t", made)):
        assert [cause.field.rpartition("securityContext.")[2] for cause in causes] == [found] * bool(found)


@pytest.mark.parametrize(("before", "after", "allowed"), [(-5, 1, True), (-5, -3, False), (1, -5, False)])
def test_negative_grace_period_may_become_a_second_only(before: int, after: int, allowed: bool) -> None:
    old, new = (pod(terminationGracePeriodSeconds=seconds) for seconds in (before, after))
    assert (spec_change_causes(new, old) == []) == allowed


def test_template_may_lack_requests_beside_huge_pages_and_the_reference_of_an_image() -> None:
    limits = {"limits": {"hugepages-2Mi": "2Mi", "memory": "1Gi"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": limits}], "restartPolicy": "Always",
            "volumes": [{"name": "v", "image": {}}]}  # fmt: skip
    assert template_causes("t", {"spec": spec}) == []
    assert faults(volumes=spec["volumes"]) == ["Required volumes[0].image.reference"]
    assert faults({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}) == ["Forbidden containers[0].resources"]


def test_token_in_a_volume_needs_an_account() -> None:
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    assert faults(volumes=[volume]) == ["Forbidden volumes[0].projected.sources[0].serviceAccountToken"]
    assert faults(volumes=[volume], serviceAccountName="a") == []


def test_gated_pod_has_no_node() -> None:
    assert faults(nodeName="n", **GATE) == ["Forbidden nodeName"]


def test_gated_pod_is_created_with_its_condition() -> None:
    condition = pod(**GATE)["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def changed(old: Object, **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    causes = PODS.strategy.validate_update(new, old)
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


def test_update_of_a_pod_may_add_tolerations_and_change_images() -> None:
    old = pod(tolerations=[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}])
    kept = [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 9}, *old["spec"]["tolerations"][1:], {"key": "b"}]
    container = old["spec"]["containers"][0]
    assert changed(old, tolerations=kept, containers=[{**container, "image": "x:2"}]) == []
    assert changed(old, tolerations=[]) == ["Forbidden spec.tolerations"]
    assert changed(old, containers=[{**container, "tty": True}]) == ["Forbidden spec"]
    assert changed(old, containers=[container, {**container, "name": "d"}]) == ["Forbidden spec.containers"]
    assert changed(old, nodeSelector={"a": "b"}) == ["Forbidden spec"]


def test_metadata_of_a_pod_that_an_older_server_stored_may_change() -> None:
    old = pod(hostPID=True, hostUsers=False)
    new = {**copy.deepcopy(old), "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert PODS.strategy.update_causes(new, old) == []
    new["spec"].update(activeDeadlineSeconds=5, hostIPC=True)
    assert [cause.field for cause in PODS.strategy.update_causes(new, old)] == ["spec.HostIPC", "spec"]


def test_update_of_a_gated_pod_may_narrow_its_nodes() -> None:
    old = pod(nodeSelector={"a": "b"}, **GATE)
    assert changed(old, nodeSelector={"a": "b", "c": "d"}) == []
    assert changed(old, nodeSelector={"c": "d"}) == ["Invalid spec.nodeSelector"]
    assert changed(old, schedulingGates=[]) == []
    assert changed(old, schedulingGates=[{"name": "other"}]) == ["Forbidden spec.schedulingGates[0].name"]


def test_gated_pod_with_an_empty_term_is_not_widened() -> None:
    def affinity(term: Object) -> Object:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}

    exists = {"key": "a", "operator": "Exists"}
    old = pod(affinity=affinity({}), **GATE)
    assert changed(old, affinity=affinity({"matchExpressions": [exists]}))[:1] == [
        "Invalid spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    ]
    old = pod(affinity=affinity({"matchExpressions": [exists]}), **GATE)
    assert changed(old, affinity=affinity({"matchExpressions": [exists, {**exists, "key": "b"}]})) == []


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"requests": {"cpu": "0", "memory": "0"}}, "BestEffort"),
        ({"limits": {"cpu": "0", "memory": "0"}}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "0"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1"}}, "Guaranteed"),
    ],
)
def test_qos_class_ignores_zeros_as_the_node_does(resources: Object, quality: str) -> None:
    made = pod({"resources": resources})
    assert made["status"]["qosClass"] == quality == qos_class(made["spec"])


def test_many_tolerations_may_change_their_order() -> None:
    many = [{"key": f"a{number}", "operator": "Exists"} for number in range(20_000)]
    old = pod(tolerations=many)
    assert spec_change_causes({"spec": {**old["spec"], "tolerations": old["spec"]["tolerations"][::-1]}}, old) == []


CLAIM = "extendedResourceClaimStatus"
MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}


def mapped(**more: str) -> Object:
    return {CLAIM: {"resourceClaimName": "a", "requestMappings": [{**MAPPING, **more}]}}


MAPPED = mapped()


def image_mounted(reference: str) -> Object:
    mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": reference}}}
    return {"containerStatuses": [{"name": "c", "volumeMounts": [mount]}]}


def test_bound_pod_is_nominated_for_no_other_node() -> None:
    old = pod(nodeName="n")
    new = copy.deepcopy(old)
    new["status"]["nominatedNodeName"] = "m"
    assert [cause.reason for cause in PODS.strategy.validate_status(new, old)] == ["FieldValueForbidden"]
    assert PODS.strategy.validate_status(new, new) == []


def status_faults(**status: Any) -> list[str]:
    claims = [{"name": "k", "resourceClaimName": "k"}]
    old = pod({"resources": {"limits": {"example.com/gpu": "1"}}}, resourceClaims=claims)
    new = copy.deepcopy(old)
    new["status"].update(copy.deepcopy(status))
    PODS.strategy.prepare_status(new, old)
    causes = PODS.strategy.validate_status(new, old)
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field.removeprefix('status.')}" for cause in causes]


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"podIPs": [{"ip": "nope"}]}, ["Invalid podIPs[0]"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, ["Invalid podIPs"]),
        ({"hostIPs": [{"ip": "10.0.0.1"}]}, ["Invalid hostIPs[0].ip"]),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}, []),
        ({"qosClass": "Guaranteed"}, ["Invalid qosClass"]),
        ({"nominatedNodeName": "N"}, ["Invalid nominatedNodeName"]),
        ({"conditions": [{"type": "A", "observedGeneration": -1}]}, ["Invalid conditions[0].observedGeneration"]),
        ({"resourceClaimStatuses": [{"name": "x"}]}, ["Invalid resourceClaimStatuses[0].name"]),
        ({"resourceClaimStatuses": [{"name": "k"}] * 2}, ["Duplicate resourceClaimStatuses[1].name"]),
        ({"observedGeneration": -1}, ["Invalid observedGeneration"]),
        (MAPPED, []),
        (
            {"extendedResourceClaimStatus": {}},
            [f"Required {CLAIM}.requestMappings", f"Required {CLAIM}.resourceClaimName"],
        ),
        (mapped(containerName="d"), [f"Invalid {CLAIM}.requestMappings[0].containerName"]),
        (mapped(resourceName="d"), [f"Invalid {CLAIM}.requestMappings[0].resourceName"]),
        (mapped(requestName=""), [f"Invalid {CLAIM}.requestName"]),
        (image_mounted(""), ["Required containerStatuses[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef"]),
        (image_mounted("a" * 256), []),
    ],
)
def test_status_with_one_fault_is_rejected_at_its_field(status: Object, found: list[str]) -> None:
    assert status_faults(**status) == found


def rule(action: str) -> Object:
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [7]}}]
    return {"restartPolicy": "Never", "restartPolicyRules": rules}


@pytest.mark.parametrize(
    ("policy", "container", "code", "is_over"),
    [
        ("Always", {}, 0, False),
        ("OnFailure", {}, 1, False),
        ("OnFailure", {}, 0, True),
        ("Never", {}, 1, True),
        ("Never", {"restartPolicy": "OnFailure"}, 1, False),
        ("Always", {"restartPolicy": "Never"}, 1, True),
        ("Never", rule("Restart"), 7, False),
        ("Never", rule("Restart"), 1, True),
        ("Never", rule("RestartAllContainers"), 1, False),
    ],
)
def test_status_revives_no_container_that_is_over(policy: str, container: Object, code: int, is_over: bool) -> None:
    old = pod(container, restartPolicy=policy)
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    new = copy.deepcopy(old)
    new["status"]["containerStatuses"][0]["state"] = {"running": {}}
    found = [cause.field for cause in PODS.strategy.validate_status(new, old)]
    assert found == ["status.containerStatuses[0].state"] * is_over
    assert PODS.strategy.validate_status(old, old) == []


def test_status_of_a_pod_keeps_its_addresses_in_step() -> None:
    old, new = pod(), pod()
    new["status"].update(podIP="10.0.0.2", podIPs=[{"ip": "10.0.0.1"}])
    PODS.strategy.prepare_status(new, old)
    assert new["status"]["podIPs"] == [{"ip": "10.0.0.2"}]


def test_update_of_a_pod_keeps_a_priority_that_it_leaves_out() -> None:
    old = pod(priority=5, preemptionPolicy="Never")
    new = copy.deepcopy(old)
    del new["spec"]["priority"], new["spec"]["preemptionPolicy"]
    PODS.strategy.prepare_update(new, old)
    assert PODS.strategy.validate_update(new, old) == []
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (5, "Never")
