"""Containers that are replaced, restarted together or ended in order, and what a pod may ask for, on a whole plane."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from protocols.kube.meta import Object
from protocols.kube.times import parse_time
from tests.support.plane import Plane, condition, until
from tests.support.plane_client import connect
from tests.support.shared_fixtures import whole_plane

CLEAN = "trap 'exit 0' TERM; while :; do sleep 0.1; done"

plane = whole_plane


def pod(name: str, *containers: Object, inits: Iterable[Object] = (), **spec: Any) -> Object:
    whole = {"terminationGracePeriodSeconds": 20, "containers": list(containers), "initContainers": list(inits), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def shell(name: str, script: str, **more: Any) -> Object:
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", script], **more}


def entry(plane: Plane, name: str, container: str = "a") -> Object:
    status = plane.get("pod", name).get("status", {})
    entries = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
    return next((one for one in entries if one["name"] == container), {})


def restarted(plane: Plane, name: str, container: str = "a", times: int = 1) -> Object:
    found = partial(entry, plane, name, container)
    return until(f"{name} restarted", found, every=0.1, good=lambda one: one.get("restartCount", 0) >= times)


def test_pod_container_killed_to_be_replaced_starts_again_though_it_exits_cleanly(plane: Plane) -> None:
    failing = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
    plane.apply(pod("probed", shell("a", CLEAN, livenessProbe=failing), restartPolicy="OnFailure"))
    plane.apply(pod("imaged", shell("a", CLEAN), restartPolicy="Never"))
    plane.pod_ready("imaged")
    image = {"spec": {"containers": [{"name": "a", "image": "busybox:2"}]}}
    plane.kubectl("patch", "pod", "imaged", "-p", json.dumps(image))
    for name in ("probed", "imaged"):
        assert restarted(plane, name)["lastState"]["terminated"]["exitCode"] == 0
    assert plane.pod_ready("imaged")["status"]["containerStatuses"][0]["image"] == "busybox:2"
    assert plane.get("pod", "probed")["status"]["phase"] == "Running"
    plane.delete("pod", "probed", "imaged", wait=False)


def test_pod_all_containers_restart_in_place(plane: Plane) -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
    state = {"volumeMounts": [{"name": "state", "mountPath": "/state"}]}
    trigger = 'cd "$NODEPLANE_MOUNT_STATE"; [ -e once ] || { sleep 1; touch once; exit 88; }; exec sleep 300'
    plane.apply(
        pod(
            "together",
            shell("a", "sleep 300"),
            inits=[
                shell("setup", 'echo . >> "$NODEPLANE_MOUNT_STATE/runs"', **state),
                shell("watch", trigger, restartPolicy="Always", restartPolicyRules=rules, **state),
            ],
            restartPolicy="Never",
            volumes=[{"name": "state", "emptyDir": {}}],
        )
    )
    assert restarted(plane, "together")["restartCount"] == 1
    found = plane.pod_ready("together")
    assert {one["restartCount"] for one in found["status"]["initContainerStatuses"]} == {1}
    assert entry(plane, "together", "watch")["lastState"]["terminated"]["exitCode"] == 88
    assert condition(found, "AllContainersRestarting") == "False"
    runs = plane.root / "pods" / found["metadata"]["uid"] / "volumes" / "empty-dir" / "state" / "runs"
    assert runs.read_text() == ".\n.\n"
    plane.delete("pod", "together", wait=False, grace_s=1)


def test_pod_ending_hooks_of_sidecars_start_at_once(plane: Plane, tmp_path: Path) -> None:
    def hooked(name: str, **more: Any) -> Object:
        command = ["sh", "-c", f"date +%s.%N > {tmp_path}/{name}; sleep 3"]
        return shell(name, "exec sleep 300", lifecycle={"preStop": {"exec": {"command": command}}}, **more)

    sidecars = [hooked(name, restartPolicy="Always") for name in ("s1", "s2")]
    plane.apply(pod("hooked", hooked("a"), inits=sidecars))
    plane.pod_ready("hooked")
    plane.delete("pod", "hooked", wait=False)
    until("the pod is gone", lambda: not plane.get("pod", "hooked"), every=0.2)
    started = [float((tmp_path / name).read_text()) for name in ("a", "s1", "s2")]
    assert max(started) - min(started) < 3


def test_pod_with_unsafe_sysctl_is_rejected(plane: Plane) -> None:
    sysctls = [{"name": "net.core.somaxconn", "value": "1024"}]
    plane.apply(pod("tuned", shell("a", "sleep 300"), securityContext={"sysctls": sysctls}))
    status = plane.pod_phase("tuned", "Failed")["status"]
    assert status["reason"] == "SysctlForbidden"
    assert status["message"] == 'Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted'
    plane.delete("pod", "tuned", wait=False)


def test_pod_takes_environment_from_a_file_of_its_init_container(plane: Plane) -> None:
    write = 'printf "GREETING=\'hello world\'\\n" > "$NODEPLANE_MOUNT_DATA/config.env"'
    env = [
        {"name": "GREETING", "valueFrom": {"fileKeyRef": file_key("GREETING")}},
        {"name": "NONE", "valueFrom": {"fileKeyRef": file_key("NONE", optional=True)}},
    ]
    setup = shell("setup", write, volumeMounts=[{"name": "config", "mountPath": "/data"}])
    volumes = [{"name": "config", "emptyDir": {}}]
    told = shell("a", 'echo "$GREETING ${NONE-unset}"', env=env)
    plane.apply(pod("filed", told, inits=[setup], restartPolicy="Never", volumes=volumes))
    wrong = shell("a", "true", env=[{"name": "X", "valueFrom": {"fileKeyRef": file_key("X")}}])
    plane.apply(pod("unfiled", wrong, restartPolicy="Never", volumes=volumes))
    plane.pod_phase("filed", "Succeeded")
    assert plane.kubectl("logs", "filed").strip() == "hello world unset"
    waiting = until("the reason", lambda: entry(plane, "unfiled").get("state", {}).get("waiting", {}).get("message"))
    assert 'environment variable key "X" not found in file "config.env"' in waiting
    plane.delete("pod", "filed", "unfiled", wait=False)


def test_pod_whose_plugin_fails_to_prepare_a_container_starts_the_others(plane: Plane) -> None:
    script = plane.root / "cold.yaml"
    calls = {"PreStartContainer": {"error": "cold"}}
    script.write_text(json.dumps({"resource": "example.com/fpga", "devices": 1, "preStart": True, "calls": calls}))
    cold = plane.start("plugin", "--script", str(script), log="cold.log")
    devices = {"resources": {"limits": {"example.com/fpga": 1}}}
    plane.apply(pod("prepared", shell("a", "exec sleep 300", **devices), shell("b", "exec sleep 300")))
    until("b runs", lambda: "running" in entry(plane, "prepared", "b").get("state", {}))
    waiting = until("a waits", lambda: entry(plane, "prepared").get("state", {}).get("waiting"))
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith("device plugin PreStartContainer rpc failed with err: ")
    until("the event", lambda: "cold" in str([event["message"] for event in plane.events("prepared", "Failed")]))
    cold.terminate()
    plane.start("plugin", "--resource", "example.com/fpga", "--devices", "1", log="warm.log")
    plane.pod_ready("prepared")
    plane.delete("pod", "prepared", wait=False, grace_s=1)


def file_key(key: str, **more: Any) -> Object:
    return {"volumeName": "config", "path": "config.env", "key": key, **more}


def said(plane: Plane, name: str, container: str = "a") -> str:
    return plane.kubectl("logs", name, "-c", container, check=False)


def test_pod_files_of_the_downward_api_follow_its_labels_and_annotations(plane: Plane) -> None:
    items = [{"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}} for name in ("labels", "annotations")]
    volumes = [
        {"name": "down", "downwardAPI": {"items": items}},
        {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("down", "all")]
    script = 'while :; do cat "$NODEPLANE_MOUNT_DOWN"/* "$NODEPLANE_MOUNT_ALL"/*; echo; sleep 0.5; done'
    plane.apply(pod("labeled", shell("a", script, volumeMounts=mounts), volumes=volumes))
    plane.pod_ready("labeled")
    plane.kubectl("label", "pod", "labeled", "color=red")
    plane.kubectl("annotate", "pod", "labeled", "builder=me")
    for text in ('color="red"', 'builder="me"'):
        until(text, lambda: said(plane, "labeled").count(text) >= 2, every=0.5)  # noqa: B023 # used at once
    plane.delete("pod", "labeled", wait=False)


def test_pod_not_ready_before_its_initial_delay_is_never_restarted(plane: Plane) -> None:
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 4, "periodSeconds": 1}
    plane.apply(pod("late", shell("a", CLEAN, readinessProbe=probe)))
    ready = plane.pod_ready("late")
    started = parse_time(entry(plane, "late")["state"]["running"]["startedAt"])
    since = next(each["lastTransitionTime"] for each in ready["status"]["conditions"] if each["type"] == "Ready")
    assert parse_time(since) - started >= 3, "times are whole seconds"
    assert entry(plane, "late")["restartCount"] == 0
    plane.delete("pod", "late", wait=False)


def test_pod_knows_all_addresses_of_its_host(plane: Plane) -> None:
    env = [{"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}]
    plane.apply(pod("hosted", shell("a", 'echo "ips=$IPS"', env=env), restartPolicy="Never"))
    ended = plane.pod_phase("hosted", "Succeeded")
    assert said(plane, "hosted") == f"ips={','.join(each['ip'] for each in ended['status']['hostIPs'])}\n"


def test_pod_subpath_that_expands_to_no_path_waits_until_it_is_mended(plane: Plane) -> None:
    expanded = {"name": "work", "mountPath": "/v", "subPathExpr": "$(WHERE)"}
    work = [{"name": "work", "emptyDir": {}}]
    env = [{"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['where']"}}}]
    made = pod("subbed", shell("a", CLEAN, env=env, volumeMounts=[expanded]), volumes=work)
    made["metadata"]["annotations"] = {"where": "../up"}
    plane.apply(made)
    env = [{"name": "WHERE", "value": "`id`/.."}]
    plane.apply(pod("ticked", shell("a", CLEAN, env=env, volumeMounts=[expanded]), volumes=work))
    waiting = lambda one: one.get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError"  # noqa: E731
    for name in ("subbed", "ticked"):
        until("it waits", partial(entry, plane, name), every=0.2, good=waiting)
    plane.kubectl("annotate", "pod", "subbed", "where=fine", "--overwrite")
    plane.pod_ready("subbed", timeout=90)
    plane.delete("pod", "subbed", "ticked", wait=False)


def test_pod_mounts_its_own_namespaces_secret_and_fifty_config_maps(plane: Plane) -> None:
    plane.kubectl("create", "namespace", "other")
    for space in ("default", "other"):
        plane.kubectl("-n", space, "create", "secret", "generic", "same", f"--from-literal=from={space}")
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{n}"}, "data": {"n": str(n)}}
        for n in range(50)
    ]
    plane.apply({"apiVersion": "v1", "kind": "List", "items": maps})
    volumes = [{"name": f"m{n}", "configMap": {"name": f"m{n}"}} for n in range(50)]
    volumes.append({"name": "same", "secret": {"secretName": "same"}})
    mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes]
    script = 'cat "$NODEPLANE_MOUNT_V_SAME/from"; for n in $(seq 0 49); do eval cat "\\$NODEPLANE_MOUNT_V_M$n/n"; done'
    plane.apply(pod("mounts", shell("a", script, volumeMounts=mounts), volumes=volumes, restartPolicy="Never"))
    plane.pod_phase("mounts", "Succeeded")
    assert said(plane, "mounts") == "default" + "".join(map(str, range(50)))


def test_pod_generation_is_observed_after_fifty_updates(plane: Plane) -> None:
    plane.apply(pod("often", shell("a", CLEAN)))
    plane.pod_ready("often")
    connection = connect(plane.root)
    for number in range(50):
        toleration = {"key": f"k{number}", "operator": "Exists"}
        body = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": toleration}])
        headers = {"Content-Type": "application/json-patch+json"}
        connection.request("PATCH", "/api/v1/namespaces/default/pods/often", body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()

    def observed() -> bool:
        found = plane.get("pod", "often")
        generations = (found["metadata"]["generation"], found["status"].get("observedGeneration"))
        return generations == (51, 51) and all(
            each["observedGeneration"] == 51 for each in found["status"]["conditions"] if each["type"] == "Ready"
        )

    until("it is observed", observed, every=0.1)
    plane.delete("pod", "often", wait=False)
