"""Write the archive of an example root by this program, for tests/integration/test_upgrade.py of later ones.

    python -m tests.support.written_root tests/integration/roots/0.1.0.tar.xz

Run it once, with the tree of a release: what it writes is what users have.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.plane import BIN, REPO, Plane, stop
from tests.support.waiting import until

NODE = "example"
OPEN_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
OBJECTS: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"word": "xyz"}},
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": OPEN_SCHEMA}],
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "a", "image": "busybox", "command": ["sleep", "100000"]}],
                },
            },
        },
    },
)
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3}}
RECORDED = "pods,configmaps,widgets,resourceclaims"


def write(archive: Path) -> None:
    """Run a plane with pods, devices, a claim and objects, stop it, and pack its root without logs."""
    with Plane("--node-name", NODE) as plane:
        plane.plugin(devices=4)
        drivers = [str(BIN / "nodeplane"), "dra-driver", "--driver", "gpu.example.com", "--devices", "2"]
        driver = subprocess.Popen(drivers, env=plane.environment)
        plane.plugins.append(driver)
        plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*OBJECTS]}))
        for name in ("gpu-pod", "gpu-claim"):
            plane.apply(REPO / "examples" / f"{name}.yaml")
        until("a widget", lambda: plane.kubectl("apply", "-f", "-", stdin=json.dumps(WIDGET), check=False))
        until("the pods", lambda: len(plane.list("pod")) == 4)
        plane.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
        items = json.loads(plane.kubectl("get", RECORDED, "-o", "json"))["items"]
        for process in plane.plugins:
            stop(process)
        plane.down()
        (plane.root / "written.json").write_text(json.dumps(_identities(items), indent=1))
        left_out = [f"--exclude=./{name}" for name in ("logs/*", "plugin-*.log", ".kube")]
        whose = ["--owner=0", "--group=0", "--numeric-owner", "--sort=name"]
        command = ["tar", "-C", str(plane.root), *left_out, *whose, "-cJf", str(archive.absolute()), "."]
        subprocess.run(command, check=True)


def _identities(items: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    found = {f"{item['kind']}/{item['metadata']['name']}": item["metadata"] for item in items}
    found.pop("ConfigMap/kube-root-ca.crt", None)
    return {name: {key: metadata[key] for key in ("uid", "resourceVersion")} for name, metadata in found.items()}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
