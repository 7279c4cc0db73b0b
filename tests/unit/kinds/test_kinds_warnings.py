"""Warnings about valid objects, with upstream's texts."""

import copy
import time
from typing import Any

import pytest

from protocols.kinds.apps.stateful import StatefulSetStrategy
from protocols.kinds.batch.cron_jobs import CronJobStrategy
from protocols.kinds.check.warnings import cidr_warnings, ip_warnings
from protocols.kinds.pods.pods import PODS
from protocols.kinds.pods.warnings import MOST, pod_warnings
from protocols.kinds.services.warnings import service_warnings
from protocols.kinds.storage.warnings import volume_warnings
from protocols.kube.meta import Object

NO_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
FRACTION = 'fractional byte value "1m" is invalid, must be an integer'
TERM = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHTED = f"podAffinity.{PREFERRED}[0].podAffinityTerm"


def files(*paths: str) -> list[Object]:
    return [{"key": "k", "path": path} for path in paths]


def projected(*sources: Object) -> Object:
    return {"volumes": [{"name": "v", "projected": {"sources": list(sources)}}]}


def container(**fields: Any) -> Object:
    return {"containers": [{"name": "c", **fields}]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"nodeSelector": {"beta.kubernetes.io/os": "a"}},
         ['nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead']),
        ({"affinity": {"nodeAffinity": {PREFERRED: [{"preference": {"matchExpressions": [
            {"key": "app.kubernetes.io/created-by", "operator": "In", "values": ["a."]}]}}]}}},
         [f"affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: app.kubernetes.io/created-by is "
          "deprecated since v1.9",
          f"affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[0]: a. is invalid, a valid"]),
        ({"topologySpreadConstraints": [{}]}, [f"topologySpreadConstraints[0].{NO_SELECTOR}"]),
        ({"affinity": {"podAffinity": {PREFERRED: [{"podAffinityTerm": {}}]}, "podAntiAffinity": {TERM: [{}]}}},
         [f"affinity.{WEIGHTED}.{NO_SELECTOR}", f"affinity.podAntiAffinity.{TERM}[0].{NO_SELECTOR}"]),
        ({"volumes": [{"name": "v", "gitRepo": {}}]}, ["volumes[0].gitRepo: deprecated in v1.11"]),
        ({"volumes": [{"name": "v", "configMap": {"name": "m", "items": files("a/b", "a/b/c", "ab")}}]},
         ['volume "v" (ConfigMap "m"): overlapping paths: "a/b/c" with "a/b"']),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s", "items": files("a/b/c", "a")}}]},
         ['volume "v" (Secret "s"): overlapping paths: "a" with "a/b/c"']),
        (projected({}), ['volume "v" (Projected) has no sources provided']),
        (projected({"configMap": {"name": "m", "items": files("t")}}, {"serviceAccountToken": {"path": "t"}}),
         ['volume "v" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (ConfigMap "m")']),
        ({"hostAliases": [{"ip": "1.2.3.4"}] * 2}, ['hostAliases[1].ip: duplicate ip "1.2.3.4"']),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
         ['imagePullSecrets[1].name: duplicate name "a"', 'imagePullSecrets[2].name: invalid empty name ""']),
        ({"overhead": {"memory": "1m", "cpu": "1m"}}, [f"overhead[memory]: {FRACTION}"]),
        (container(resources={"limits": {"memory": "1m"}, "requests": {"memory": "500u"}}),
         [f"containers[0].resources.limits[memory]: {FRACTION}",
          f"containers[0].resources.requests[memory]: {FRACTION}"]),
        (container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]),
         ['containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply']),
        (container(ports=[{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "UDP"}]), []),
        (container(ports=[{"containerPort": 1}, {"containerPort": 1}, {"containerPort": 1, "hostPort": 2}]),
         ["containers[0].ports[1]: duplicate port definition with ",
          "containers[0].ports[2]: overlapping port definition with ",
          "containers[0].ports[2]: overlapping port definition with "]),
        (container(ports=[{"containerPort": 1, "hostPort": 2}, {"containerPort": 1, "hostPort": 2, "hostIP": "::"}]),
         ["containers[0].ports[1]: dangerously ambiguous port definition with "]),
        (container(ports=[{"containerPort": 1, "protocol": "TCP", "hostIP": "x"}]),
         ["containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:1 Protocol:TCP "
          "HostIP:x}"]),
        ({"terminationGracePeriodSeconds": -1},
         ["terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"]),
        ({"dnsConfig": {"nameservers": ["010.0.0.1"]}},
         ['dnsConfig.nameservers[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"']),
    ],
)  # fmt: skip
def test_spec_of_a_pod_has_warnings(spec: Object, found: list[str]) -> None:
    shown = [text.removeprefix("t.spec.") for text in pod_warnings({"spec": spec}, "t")]
    assert len(shown) == len(found)
    assert all(text.startswith(start) for text, start in zip(shown, found, strict=True)), shown


def test_annotations_that_fields_replace_have_warnings() -> None:
    keys = ("scheduler.alpha.kubernetes.io/critical-pod", "seccomp.security.alpha.kubernetes.io/pod",
            "container.apparmor.security.beta.kubernetes.io/c")  # fmt: skip
    made = {"metadata": {"annotations": dict.fromkeys(keys, "x")}, "spec": container()}
    assert [text.partition("]")[0] for text in pod_warnings(made, "t")] == [f"t.metadata.annotations[{k}" for k in keys]


def test_new_pod_has_warnings_and_an_updated_one_has_none() -> None:
    pod = {"metadata": {"name": "a.b"}, "spec": {"imagePullSecrets": [{}]}}
    named, unnamed = PODS.strategy.warnings(pod, None)
    assert named.endswith("a DNS label is recommended: [must not contain dots]")
    assert unnamed == 'spec.imagePullSecrets[0].name: invalid empty name ""'
    assert PODS.strategy.warnings(pod, pod) == []


def test_thousands_of_ports_and_paths_are_compared_in_linear_time() -> None:
    ports = [{"containerPort": 1, "hostPort": number, "hostIP": "a"} for number in range(1, 30_000)]
    paths = files(*(f"{number}/{'a/' * 30}b" for number in range(20_000)), *(["a/" * 100_000] * 9))
    begin = time.process_time()
    spec = {**container(ports=ports), "volumes": [{"name": "v", "configMap": {"name": "m", "items": paths}}]}
    assert pod_warnings({"spec": spec}) == []
    many: Object = {"spec": {"imagePullSecrets": [{}] * 10_000}}
    assert len(pod_warnings(many)) == MOST
    assert time.process_time() - begin < 5


def test_template_has_warnings_where_it_changes() -> None:
    strategy = StatefulSetStrategy()
    claim = {"spec": {"resources": {"requests": {"storage": "1m"}}}}
    old: Object = {"metadata": {"name": "s"}, "spec": {"template": {"spec": {}}, "volumeClaimTemplates": [claim]}}
    new = copy.deepcopy(old)
    new["spec"]["template"]["spec"]["imagePullSecrets"] = [{}]
    assert strategy.warnings(new, old) == strategy.warnings(new, None) == [
        'spec.template.spec.imagePullSecrets[0].name: invalid empty name ""',
        f"spec.volumeClaimTemplates[0].resources.requests[storage]: {FRACTION}",
    ]  # fmt: skip
    assert strategy.warnings(new, new) == []


def test_jobs_of_a_cron_job_have_warnings() -> None:
    spec = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    job = {"metadata": {"name": "j"}, "spec": {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": spec}}}
    (many,) = CronJobStrategy().warnings(job, None)
    assert many.startswith("spec.jobTemplate.spec: In Indexed Jobs with a number of completions higher than 10^5")
    (zoned,) = CronJobStrategy().warnings(job, job)
    assert zoned.startswith("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead")


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP"},
         ["spec.externalIPs is ignored for headless services",
          "spec.SessionAffinity is ignored for headless services"]),
        ({"type": "NodePort", "externalIPs": ["1.2.3.4"], "externalName": "a"},
         ["spec.externalIPs is deprecated and may no longer be implemented in some clusters",
          'spec.externalName is ignored when spec.type is not "ExternalName"']),
        ({"type": "ExternalName", "externalIPs": ["1.2.3.4"]},
         ['spec.externalIPs is ignored when spec.type is "ExternalName"']),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8"], "trafficDistribution": "PreferClose"},
         ['spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be '
          '"10.0.0.0/8" or "10.0.0.1/32"?)',
          'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"']),
    ],
)  # fmt: skip
def test_service_has_warnings(spec: Object, found: list[str]) -> None:
    assert service_warnings({"spec": spec}) == found


def test_volume_has_warnings() -> None:
    option = "metadata.annotations[volume.beta.kubernetes.io/mount-options]"
    annotations = {"volume.beta.kubernetes.io/mount-options": "x"}
    spec = {"persistentVolumeReclaimPolicy": "Recycle", "rbd": {}}
    found = volume_warnings({"metadata": {"annotations": annotations}, "spec": spec})
    assert [text.partition(":")[0] for text in found] == [option, "spec.persistentVolumeReclaimPolicy", "spec.rbd"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("10.0.0.1", ""), ("fd00::1", ""), ("nope", ""), ("010.0.0.1", "10.0.0.1"), ("::ffff:1.2.3.4", "1.2.3.4"),
     ("FD00::1", "fd00::1")],
)  # fmt: skip
def test_address_in_an_unusual_form_has_a_warning(text: str, plain: str) -> None:
    assert [f'"{plain}"' in warning for warning in ip_warnings("f", text)] == [True] * bool(plain)
    bits = 128 if ":" in text else 32
    shown = f'"{plain}/{128 if ":" in plain else 32}"'
    assert [shown in warning for warning in cidr_warnings("f", f"{text}/{bits}")] == [True] * bool(plain)
