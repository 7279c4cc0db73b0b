"""What one pod, manifest or volume may cost podworker: bounded, or linear in what was sent."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid, ManifestInvalid, VolumeNotReady
from actors.podworker.pods.containers.config import MountInputs, container_mounts
from actors.podworker.pods.containers.images import credentials
from actors.podworker.pods.environment.references import CONFIG_MAP, Ref
from actors.podworker.pods.environment.variables import MAX_ENVIRONMENT, build_environment, expand
from actors.podworker.pods.manifests import static_pod
from actors.podworker.pods.volumes.payload import Inputs, Payload, payload
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.claims import entries
from protocols.lifecycle.pods.resources import desired_amounts, requests
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.lifecycle.restarts.kills import stop_all
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.lifecycle.status.patch import status_patch
from protocols.lifecycle.status.pod import StatusInputs, compute_status, is_over
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from tests.support.growth import MOST, growth
from tests.support.podworker_fakes import container, pod, sidecar

NODE = NodeFields("n1", "10.0.0.5", ("10.1.0.1",), cpus=2, memory=1 << 30, storage=1 << 40)
Found = Mapping[Ref, dict[str, bytes] | None]
LARGE: Found = {Ref(CONFIG_MAP, "c"): {"k": b"x" * (1 << 20)}}


def environment(*entries: Object, found: Found | None = None, **more: Any) -> dict[str, str]:
    parsed = read_pod(pod(container("a", env=list(entries), **more)))
    return build_environment(parsed, parsed.containers[0], NODE, {}, found)


def test_expand_references_that_are_never_closed_is_linear() -> None:
    assert growth(lambda size: lambda: expand("$(" * size, {}), 20_000) < MOST


def test_expand_unclosed_reference_after_a_closed_one_stays_as_written() -> None:
    assert expand("$(A)$(B $$ )$(C", {"A": "1"}) == "1$(B $$ )$(C"


def test_environment_references_that_double_are_refused() -> None:
    doubling = [{"name": "V0", "value": "x" * 1024}]
    doubling += [{"name": f"V{n}", "value": f"$(V{n - 1})$(V{n - 1})"} for n in range(1, 40)]
    with pytest.raises(ContainerConfigInvalid, match=f"more than {MAX_ENVIRONMENT} characters"):
        environment(*doubling)


def test_environment_one_large_value_named_often_is_refused() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    with pytest.raises(ContainerConfigInvalid, match="characters together"):
        environment(*({"name": f"V{n}", "valueFrom": source} for n in range(9)), found=LARGE)
    with pytest.raises(ContainerConfigInvalid, match="characters together"):
        environment(envFrom=[{"configMapRef": {"name": "c"}}] * 9, found=LARGE)


def test_environment_of_what_linux_can_execute_is_built() -> None:
    made = environment(*({"name": f"V{n}", "value": "x" * 100_000} for n in range(60)))
    assert sum(map(len, made.values())) == 6_000_000


def mounts(size: int) -> Callable[[], object]:
    names = [f"v{n}" for n in range(size)]
    volumes = [{"name": name, "emptyDir": {}} for name in names]
    raw = container("a", volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in names])
    parsed = read_pod(pod(raw, volumes=volumes))
    return lambda: container_mounts(parsed, parsed.containers[0], Path("/root-dir"), 0, MountInputs())


def test_mounts_of_many_volumes_are_linear() -> None:
    assert growth(mounts, 500) < MOST


def limits(size: int) -> Callable[[], object]:
    containers = [container(f"c{n}", resources={"limits": {"cpu": "1"}}) for n in range(size)]
    reference: views.ResourceFieldSelector = {"resource": "limits.cpu", "containerName": f"c{size - 1}"}
    containers[0]["env"] = [{"name": f"V{n}", "valueFrom": {"resourceFieldRef": reference}} for n in range(size)]
    parsed = read_pod(pod(*containers))
    return lambda: build_environment(parsed, parsed.containers[0], NODE, {})


def test_environment_of_other_containers_limits_is_linear() -> None:
    assert growth(limits, 500) < MOST


def test_volume_that_projects_a_large_value_often_is_refused() -> None:
    items: list[views.KeyToPath] = [{"key": "k", "path": f"p{n}"} for n in range(200)]
    volume: views.Volume = {"name": "v", "projected": {"sources": [{"configMap": {"name": "c", "items": items}}]}}
    with pytest.raises(VolumeNotReady, match="more than 128 MiB"):
        payload(volume, Inputs(spec=read_pod(pod(container("a"))), node=NODE, found=LARGE))


def annotated(files: int) -> Payload:
    raw = pod(container("a"))
    raw["metadata"]["annotations"] = {"a": "x" * (1 << 18)}
    file: views.DownwardAPIVolumeFile = {"fieldRef": {"fieldPath": "metadata.annotations"}}
    items = [file | {"path": f"p{n}"} for n in range(files)]
    return payload({"name": "v", "downwardAPI": {"items": items}}, Inputs(spec=read_pod(raw), node=NODE))


def test_volume_of_annotations_shown_often_is_refused_and_renders_them_once() -> None:
    with pytest.raises(VolumeNotReady, match="more than 128 MiB"):
        annotated(1000)
    assert len({id(file.data) for file in annotated(9).values()}) == 1


GROWING = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))


@pytest.mark.parametrize(
    "text", [f"l0: &l0 x\n{GROWING}", "a: &a [*a]", f"a: &a {'x' * 1_000_000}\nb: [{'*a, ' * 30}]"]
)
def test_manifest_whose_aliases_grow_is_refused(text: str) -> None:
    with pytest.raises(ManifestInvalid, match="with its aliases"):
        static_pod("/m/web.yaml", text.encode(), "n1")


def test_manifest_with_a_few_aliases_is_run() -> None:
    text = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: &labels {app: web}, annotations: *labels}
spec: {containers: [{name: a, image: i}]}
"""
    assert static_pod("/m/web.yaml", text.encode(), "n1")["metadata"]["annotations"]["app"] == "web"


def sync(size: int) -> Callable[[], object]:
    raw = pod(*(container(f"c{n}") for n in range(size)), inits=[container(f"i{n}") for n in range(size)])

    def work() -> None:
        spec, status = read_pod(raw), PodStatus(uid="u", name="p", namespace="ns")
        plan = compute_actions(spec, status, {}, 1)
        shown = compute_status(StatusInputs(spec, status, waiting=plan.waiting, now_ns=1))
        requests(spec, desired_amounts(spec))
        is_over(spec, shown)
        status_patch("u", {}, shown)

    return work


def test_sync_of_a_pod_of_many_containers_is_linear() -> None:
    assert growth(sync, 400) < MOST


def runs_of(spec: PodSpec, state: str) -> tuple[ContainerStatus, ...]:
    return tuple(ContainerStatus(c.name, "s", c.name, 0, state, created_ns=2) for c in spec.containers)


def ending(size: int) -> Callable[[], object]:
    containers = [container(f"c{n}") for n in range(size)]
    spec = read_pod(pod(*containers, inits=[sidecar(f"s{n}") for n in range(size)]))
    live = runs_of(spec, "running")
    return lambda: stop_all(spec, live)


def restarting(size: int) -> Callable[[], object]:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [1]}}]
    spec = read_pod(pod(*(container(f"c{n}", restartPolicyRules=rules) for n in range(size))))
    box = SandboxStatus(id="s", ready=True, attempt=0, created_ns=1)
    status = PodStatus(uid="u", sandboxes=(box,), containers=runs_of(spec, "exited"))
    return lambda: compute_actions(spec, status, {}, 1)


@pytest.mark.parametrize("work", [ending, restarting])
def test_end_and_restart_of_a_pod_of_many_containers_are_linear(work: Callable[[int], Callable[[], object]]) -> None:
    assert growth(work, 4000) < MOST


def claim_entries(size: int) -> Callable[[], object]:
    raw = pod(resourceClaims=[{"name": f"e{n}", "resourceClaimTemplateName": "t"} for n in range(size)])
    raw["status"]["resourceClaimStatuses"] = [{"name": f"e{n}", "resourceClaimName": f"c{n}"} for n in range(size)]
    spec = read_pod(raw)
    return lambda: entries(spec)


def test_entries_of_many_claims_are_linear() -> None:
    assert growth(claim_entries, 500) < MOST


def test_credentials_of_a_registry_whose_name_is_a_long_pattern_are_passed_over() -> None:
    auths = {"*a" * 500_000: {"auth": "YTpi"}, "*.example.com": {"auth": "YTpi"}}
    secret = {".dockerconfigjson": json.dumps({"auths": auths}).encode()}
    assert len(credentials("r.example.com/a", [secret])) == 1
