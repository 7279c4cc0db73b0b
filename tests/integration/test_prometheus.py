"""A real Prometheus scrapes a plane with the rules of deploy/monitoring, and is asked every query of the board."""

import json
import math
import os
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocols.process.layout import Layout
from supervisor.client.connection import Asking, ask
from tests.support.plane import Plane, until
from tests.support.ports import free_port
from tests.support.shared_fixtures import whole_plane
from tests.support.witnesses import device_health

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
BOARD = json.loads((MONITORING / "board.json").read_text())
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed (Debian: prometheus)"),
]


class Prometheus:
    def __init__(self, where: Path, targets: list[str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "500ms"},
            "rule_files": [str(MONITORING / "rules.yaml")],
            "scrape_configs": [{"job_name": "nodeplane", "static_configs": [{"targets": targets}]}],
        }
        (where / "prometheus.yaml").write_text(yaml.safe_dump(config))
        flags = {
            "config.file": where / "prometheus.yaml",
            "storage.tsdb.path": where / "data",
            "web.listen-address": self.url.removeprefix("http://"),
            "log.level": "warn",
        }
        self.process = subprocess.Popen(["prometheus", *(f"--{name}={value}" for name, value in flags.items())])

    def get(self, path: str, **parameters: str) -> Any:
        try:
            query = urllib.parse.urlencode(parameters)
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    def values(self, query: str) -> list[float]:
        """Return the values of an instant query; those that are not a number have no point in a panel."""
        found = [float(line["value"][1]) for line in self.get("query", query=query).get("result", ())]
        return [value for value in found if not math.isnan(value)]

    def alerts(self) -> dict[tuple[str, str], str]:
        """Return the state of each active alert by its name and actor."""
        found = self.get("alerts").get("alerts", ())
        return {(one["labels"]["alertname"], one["labels"].get("actor", "")): one["state"] for one in found}


plane = whole_plane


@pytest.fixture(scope="module")
def prometheus(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    url = ask(Layout(plane.root, plane.root / "kubelet"), Asking.status).endpoints["metrics"]
    running = Prometheus(tmp_path_factory.mktemp("prometheus"), [urllib.parse.urlsplit(url).netloc])
    try:
        until("a scrape", lambda: running.values("up") == [1.0])
        yield running
    finally:
        running.process.terminate()
        running.process.wait(20)


@pytest.fixture(scope="module")
def used(plane: Plane, prometheus: Prometheus) -> None:
    """Two pods with devices, and a device that breaks. A rate needs a sample before its event, hence the second pod."""
    plane.plugin(devices=2)
    for name in ("first", "second"):
        limits = {"limits": {"example.com/gpu": "1"}}
        container = {"name": "a", "image": "any", "command": ["sleep", "300"], "resources": limits}
        plane.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        )
        plane.pod_ready(name)
        allocated = f"kubelet_device_plugin_alloc_duration_seconds_count == {1 + (name == 'second')}"
        until("the samples of its allocation", partial(prometheus.values, allocated))
    [device] = device_health(plane.get("pod", "first"))
    plane.nodeplane("chaos", "device", "example.com/gpu", device, "unhealthy")


def test_killed_actor_fires_its_alert(plane: Plane, prometheus: Prometheus, used: None) -> None:
    """The one whose end makes PLEG relist, which is else rare: a panel has its duration."""
    os.kill(plane.status()["cri"]["pid"], signal.SIGKILL)
    fired = ("NodeplaneActorRestarted", "cri")
    until("the alert", lambda: prometheus.alerts().get(fired) == "firing")
    assert [name for name in prometheus.alerts() if name[0] == fired[0]] == [fired]
    broken = ("NodeplaneUnhealthyDeviceInUse", "")
    until("the alert about the device, which must last a minute", lambda: prometheus.alerts().get(broken) == "pending")


def test_every_rule_evaluates(prometheus: Prometheus, used: None) -> None:
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 30
    assert {rule["health"] for rule in rules} == {"ok"}, [rule for rule in rules if rule["health"] != "ok"]


def test_every_panel_has_data(prometheus: Prometheus, used: None) -> None:
    queries = {panel["title"]: target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())}

    def empty() -> list[str]:
        filled = {title: query.replace("$instance", ".*") for title, query in queries.items()}
        return [
            title for title, query in filled.items() if not prometheus.values(query.replace("$__rate_interval", "2m"))
        ]

    missing: list[str] = []

    def whole() -> bool:
        missing[:] = empty()
        return not missing

    try:
        until("data in every panel", whole, 25)
    except AssertionError:
        raise AssertionError(f"panels without data: {missing}") from None
