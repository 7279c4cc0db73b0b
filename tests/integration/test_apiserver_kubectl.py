"""The API server with an unmodified kubectl, against real store and watchcache processes."""

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.apiserver_plane import Plane, running_plane

CONFIGMAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}, "data": {"a": "1"}}'
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {app: web}}
spec:
  containers:
  - {name: c, image: busybox, resources: {limits: {example.com/gpu: "2"}}}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with its store."""
    with running_plane() as started:
        yield started


def pod(name: str) -> str:
    return POD.replace("NAME", name)


def test_get_lists_what_apply_made(plane: Plane) -> None:
    assert plane.kubectl("apply", "-f", "-", stdin=pod("made")) == "pod/made created\n"
    assert plane.kubectl("apply", "-f", "-", stdin=pod("made")) == "pod/made unchanged\n"
    assert "configured" in plane.kubectl("apply", "-f", "-", stdin=pod("made").replace("web", "db"))
    table = plane.kubectl("get", "pods", "-l", "app=db")
    assert table.splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert table.splitlines()[1].split()[:4] == ["made", "0/1", "Pending", "0"]


def test_wide_yaml_and_describe(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=pod("shown"))
    assert "<none>" in plane.kubectl("get", "pod", "shown", "-o", "wide")
    assert "qosClass: BestEffort" in plane.kubectl("get", "pod", "shown", "-o", "yaml")
    assert "example.com/gpu" in plane.kubectl("describe", "pod", "shown")


def test_edits_of_every_kind(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=pod("edited"))
    assert "labeled" in plane.kubectl("label", "pod", "edited", "tier=x")
    assert "annotated" in plane.kubectl("annotate", "pod", "edited", "note=y")
    for kind, patch in (
        ("strategic", '{"spec":{"containers":[{"name":"c","image":"other"}]}}'),
        ("merge", '{"metadata":{"labels":{"tier":null}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/j","value":"1"}]'),
    ):
        assert "patched" in plane.kubectl("patch", "pod", "edited", "--type", kind, "-p", patch)
    shown = plane.kubectl("get", "pod", "edited", "-o", "jsonpath={.spec.containers[0].image} {.metadata.labels}")
    assert shown == 'other {"app":"web","j":"1"}'


def test_delete_waits_until_it_is_gone(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=pod("gone"))
    assert "deleted" in plane.kubectl("delete", "pod", "gone", "--timeout=60s")
    assert "NotFound" in plane.kubectl("get", "pod", "gone", check=False)


def test_server_side_apply_creates_and_changes(plane: Plane) -> None:
    assert "serverside-applied" in plane.kubectl("apply", "--server-side", "-f", "-", stdin=pod("ssa"))
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=pod("ssa").replace("web", "new"))
    assert plane.kubectl("get", "pod", "ssa", "-o", "jsonpath={.metadata.labels.app}") == "new"


def test_errors_of_bad_objects_name_the_field(plane: Plane) -> None:
    told = plane.kubectl("apply", "-f", "-", stdin=pod("Bad_Name").replace('"2"', '"1.5"'), check=False)
    assert "metadata.name: Invalid value" in told
    assert "spec.containers[0].resources.limits[example.com/gpu]" in told


def test_unknown_kinds_and_versions_are_named(plane: Plane) -> None:
    for kind, version in (("Pot", "v1"), ("Pod", "v7")):
        manifest = f'{{"apiVersion": "{version}", "kind": "{kind}", "metadata": {{"name": "a"}}}}'
        told = plane.kubectl("apply", "-f", "-", stdin=manifest, check=False)
        assert f'no matches for kind "{kind}" in version "{version}"' in told


def test_names_and_explanations_of_resources(plane: Plane) -> None:
    names = plane.kubectl("api-resources", "-o", "name").split()
    assert {"pods", "nodes", "events", "leases.coordination.k8s.io", "resourceslices.resource.k8s.io"} <= set(names)
    assert "po" in plane.kubectl("api-resources").split()


def test_watch_prints_each_change(plane: Plane) -> None:
    command = ["get", "configmaps", "-w", "--no-headers"]
    binary = plane.command(*command)
    with subprocess.Popen(binary, stdout=subprocess.PIPE, text=True, env=plane.environment) as watch:
        try:
            assert watch.stdout is not None
            time.sleep(0.5)  # kubectl says nothing when it begins to watch
            plane.kubectl("apply", "-f", "-", stdin=CONFIGMAP)
            assert watch.stdout.readline().split()[:2] == ["seen", "1"]
            plane.kubectl("patch", "configmap", "seen", "--type=merge", "-p", '{"data":{"b":"2"}}')
            assert watch.stdout.readline().split()[:2] == ["seen", "2"]
        finally:
            watch.kill()
