"""The rules of deploy/monitoring: made from the figures, and each alert held by promtool against series."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from deploy.monitoring import generate
from deploy.monitoring.alerts import ALERTS
from deploy.monitoring.figures import FIGURES, panel_query

REPO = Path(__file__).parents[3]
METRICS = (REPO / "docs" / "reference" / "metrics.md").read_text()
WORD = re.compile(r"\b(?!actor:|instance:|resource|queue:)[a-z]+_[a-z_]+\b")


class Case(NamedTuple):
    """Series of one sample a minute; the alert fires at minute 40, or not."""

    fires: dict[str, str]
    quiet: dict[str, str]


def case(series: str, fires: str, quiet: str) -> Case:
    return Case({series: fires}, {series: quiet})


CASES = {
    "NodeplaneDown": case('up{job="nodeplane"}', "0x60", "1x60"),
    "NodeplaneActorRestarted": case('nodeplane_actor_restarts_total{actor="cri"}', "0x37 1x20", "0x20 1x40"),
    "NodeplaneActorRestarting": case('nodeplane_actor_restarts_total{actor="cri"}', "0+1x60", "0x38 1x20"),
    "NodeplaneActorDown": case('nodeplane_actor_up{actor="cri"}', "1x37 0x20", "1x39 0x20"),
    "NodeplaneProcessSilent": case('nodeplane_scrape_up{actor="cri"}', "0x60", "1x60"),
    "NodeplaneCertificatesExpire": case(
        "nodeplane_certificates_expiration_timestamp_seconds", "1000000x120", "9000000x120"
    ),
    "NodeplaneStreamStale": case('nodeplane_bus_silence_seconds{actor="a",owner="o"}', "31x60", "5x60"),
    "NodeplaneStreamUnsynced": case('nodeplane_bus_synced{actor="a",stream="s"}', "0x60", "1x60"),
    "NodeplaneReplicaBehind": case('nodeplane_replica_behind_revisions{actor="a"}', "3x60", "0x39 3x20"),
    "NodeplaneApiErrors": Case(
        {'apiserver_request_total{code="200"}': "0+9x60", 'apiserver_request_total{code="503"}': "0+1x60"},
        {'apiserver_request_total{code="200"}': "0+99x60", 'apiserver_request_total{code="503"}': "0+1x60"},
    ),
    "NodeplaneWatchCacheRelists": case(
        'apiserver_watch_cache_initializations_total{resource="pods"}', "1+1x60", "0x35 1x30"
    ),
    "NodeplaneWatchesExpire": case('nodeplane_watch_expired_total{resource="pods"}', "0+3x60", "0+1x60"),
    "NodeplaneStoreNearQuota": Case(
        {"nodeplane_store_used_bytes": "91x60", "nodeplane_store_quota_bytes": "100x60"},
        {"nodeplane_store_used_bytes": "91x60", "nodeplane_store_quota_bytes": "0x60"},
    ),
    "NodeplaneStoreCommitsFail": case("nodeplane_store_commit_failures_total", "0x38 1x20", "0x20 1x40"),
    "NodeplanePlegUnhealthy": Case(
        {"kubelet_pleg_last_seen_seconds": "2000x60", 'nodeplane_pleg_limit_seconds{actor="pleg"}': "180x60"},
        {"kubelet_pleg_last_seen_seconds": "2000x60", 'nodeplane_pleg_limit_seconds{actor="pleg"}': "600x60"},
    ),
    "NodeplanePlegSlow": Case(
        {
            'kubelet_pleg_relist_duration_seconds_bucket{le="10"}': "0x60",
            'kubelet_pleg_relist_duration_seconds_bucket{le="+Inf"}': "0+1x60",
        },
        {
            'kubelet_pleg_relist_duration_seconds_bucket{le="1"}': "0+1x60",
            'kubelet_pleg_relist_duration_seconds_bucket{le="+Inf"}': "0+1x60",
        },
    ),
    "NodeplanePodEventsMissed": Case(
        {'kube_pod_missed_events{cause="runtime",transition="stopped"}': "0x37 1x20"},
        {
            'kube_pod_missed_events{cause="runtime",transition="deleted"}': "0+1x60",
            'kube_pod_missed_events{cause="stream_down",transition="stopped"}': "0+1x60",
        },
    ),
    "NodeplaneUnhealthyDeviceInUse": Case(
        {'nodeplane_health_devices{resource="gpu",health="Unhealthy"}': "1x60"},
        {'nodeplane_health_devices{resource="gpu",health="Healthy"}': "1x60"},
    ),
    "NodeplaneDevicesNotHealthy": case('nodeplane_device_health{resource_name="gpu",device="0"}', "-1x60", "1x60"),
    "NodeplanePodsUnschedulable": case('scheduler_pending_pods{queue="unschedulable"}', "2x60", "0x39 2x20"),
}
AT = 40
LATE = {"NodeplaneCertificatesExpire": 100}
"""Minutes at which an alert that holds for longer is read."""


APART = ("NodeplaneActorRestarting", "NodeplaneCertificatesExpire")
"""The series of the first fire another alert as well; the second takes longer than all others."""


def labelled(series: str, name: str) -> str:
    """Return a series with the label of its target: each alert's series are of an instance of its own."""
    metric, _, labels = series.partition("{")
    return f'{metric}{{instance="{name}",{labels or "}"}'


def promtool_test(names: list[str], *, fires: bool) -> dict[str, Any]:
    """Return one test of several alerts; one per alert would take promtool a second and more."""
    series = {name: CASES[name].fires if fires else CASES[name].quiet for name in names}
    return {
        "interval": "1m",
        "input_series": [
            {"series": labelled(one, name), "values": values} for name in names for one, values in series[name].items()
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{LATE.get(name, AT)}m",
                "alertname": name,
                "exp_alerts": [{"exp_labels": fired_labels(name)}] if fires else [],
            }
            for name in names
        ],
    }


def fired_labels(name: str) -> dict[str, str]:
    """Return the labels of the alert: its severity, and those of the case's series that its query keeps."""
    query, severity = next((alert.query, alert.severity) for alert in ALERTS if alert.name == name)
    recorded = next((figure.query for figure in FIGURES if figure.record and figure.record in query), "")
    by = re.search(r"by \(([^)]*)\)", recorded)
    kept = by[1].split(", ") if by else []
    labels = {"severity": severity, "instance": name}
    for series in CASES[name].fires:
        for label, value in re.findall(r'(\w+)="([^"]*)"', series):
            if label != "le" and (label in kept or not recorded):
                labels[label] = value
    return labels


def test_every_alert_has_a_case_and_every_rule_a_reader() -> None:
    assert [alert.name for alert in ALERTS] == list(CASES)
    for figure in FIGURES:
        assert not figure.record or any(figure.record in alert.query for alert in ALERTS), figure.record


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian: prometheus)")
def test_alerts_fire_and_are_quiet(tmp_path: Path) -> None:
    groups = [[name for name in CASES if name not in APART], *([name] for name in APART)]
    tests = [promtool_test(names, fires=fires) for names in groups for fires in (True, False)]
    rules = yaml.safe_load(generate.rules())
    for rule in rules["groups"][1]["rules"]:
        del rule["annotations"]  # else each case would repeat its texts
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    command = ["promtool", "test", "rules", str(tmp_path / "test.yaml")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_files_are_what_the_figures_make() -> None:
    for path, text in generate.made().items():
        assert path.read_text() == text, path


def test_queries_name_documented_metrics() -> None:
    for figure in FIGURES:
        query = re.sub(r"\([^()]*\) \(|\{[^}]*\}", " ", figure.query)
        for name in WORD.findall(query):
            known = name.startswith("process_") or f"`{name.removesuffix('_bucket')}`" in METRICS
            assert known or name == "histogram_quantile", (figure.title, name)


def test_board_has_a_panel_for_each_figure_that_overlaps_no_other() -> None:
    panels = json.loads(generate.board())["panels"]
    assert [panel["targets"][0]["expr"] for panel in panels if "targets" in panel] == [
        panel_query(figure) for figure in FIGURES
    ]
    cells: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        mine = {(x, y) for x in columns for y in lines}
        assert not cells & mine
        assert place["x"] + place["w"] <= 24
        cells |= mine
