"""What Kubernetes' own programs ask an API for at their start, and the table of those that were run."""

import itertools
import os
import re
import subprocess
from pathlib import Path

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "reference" / "conformance.md"
TABLE = "NODEPLANE_CONFORMANCE_TABLE"
"""Set to 1, a run with real programs writes its rows into the page."""
TITLE = "| program | version | direction | tried |\n|---|---|---|---|\n"

SCHEDULER = (
    "/api/v1/nodes", "/api/v1/pods?fieldSelector=status.phase!=Succeeded,status.phase!=Failed", "/api/v1/namespaces",
    "/api/v1/services", "/api/v1/replicationcontrollers", "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets",
    "/apis/policy/v1/poddisruptionbudgets", "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities", "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1beta2/devicetaintrules",
)  # fmt: skip
"""Collections that kube-scheduler of 1.36 lists and watches; it schedules nothing before all are synced."""
AUTHENTICATION = (
    "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dextension-apiserver-authentication"
)
INFORMERS = {
    "kube-scheduler": (*SCHEDULER, AUTHENTICATION),
    "kube-controller-manager": (
        *SCHEDULER, "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts", "/api/v1/endpoints",
        "/apis/coordination.k8s.io/v1/leases", "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/podtemplates",
        "/apis/autoscaling/v2/horizontalpodautoscalers", "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/networking.k8s.io/v1/servicecidrs", "/apis/storage.k8s.io/v1/volumeattributesclasses",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        *(f"/apis/apps/v1/{plural}" for plural in ("controllerrevisions", "daemonsets", "deployments")),
        *(f"/apis/batch/v1/{plural}" for plural in ("cronjobs", "jobs")), AUTHENTICATION,
    ),
}  # fmt: skip
"""Collections by program; of kube-controller-manager those of the kinds that are served."""


def version_of(binary: str) -> str:
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r"v\d+\.\d+\.\d+\S*", answer.stdout)
    return found[0] if found else answer.stdout.strip()


def record(program: str, version: str, direction: str, tried: str) -> None:
    """Put a row into the table of the page, in place of an earlier one of the same program and direction."""
    if os.environ.get(TABLE) != "1":
        return
    head, _, rest = PAGE.read_text().partition(TITLE)
    lines = rest.splitlines()
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    kept = [row for row in rows if not (row.startswith(f"| {program} |") and f"| {direction} |" in row)]
    now = sorted([*kept, f"| {program} | {version} | {direction} | {tried} |"])
    PAGE.write_text("\n".join([f"{head}{TITLE}{now[0]}", *now[1:], *lines[len(rows) :], ""]))
