"""Write what is made of figures, alerts and declared metrics: rules, board and two pages of the reference.

That is rules.yaml, also as a PrometheusRule, board.json, docs/reference/alerts.md, and the tables of metrics.md there.

python -m deploy.monitoring.generate          # write
python -m deploy.monitoring.generate --check  # fail if a file is not what would be written
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from deploy.monitoring import reference
from deploy.monitoring.alerts import ALERTS, Alert
from deploy.monitoring.figures import FIGURES, Figure, panel_query, rule_query
from supervisor.cli.reference import write_pages

HERE = Path(__file__).parent
OPERATOR = HERE.parent / "kubernetes" / "adopt" / "components" / "prometheus-operator" / "rules.yaml"
PAGE = HERE.parents[1] / "docs" / "reference" / "alerts.md"
MADE = "# Made by `make docs` from figures.py and alerts.py. Check it with: promtool check rules rules.yaml\n"
BEGIN, END = "<!-- begin: python -m deploy.monitoring.generate -->", "<!-- end -->"
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
"""Panels per row of the board, and their size in Grafana's units."""


def rules() -> str:
    return MADE + _dump({"groups": _groups()})


def prometheus_rule() -> str:
    """Return the rules as the Prometheus operator reads them."""
    metadata = {"name": "nodeplane", "namespace": "nodeplane"}
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata}
    return "# Made by `make docs`.\n" + _dump({**head, "spec": {"groups": _groups()}})


def _dump(what: object) -> str:
    return yaml.safe_dump(what, sort_keys=False, width=1000)


def _groups() -> list[dict[str, Any]]:
    recorded = [{"record": figure.record, "expr": rule_query(figure)} for figure in FIGURES if figure.record]
    return [
        {"name": "nodeplane.figures", "rules": recorded},
        {"name": "nodeplane.alerts", "rules": [_alert(alert) for alert in ALERTS]},
    ]


def _alert(alert: Alert) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": alert.name, "expr": alert.query}
    if alert.hold != "0s":
        rule["for"] = alert.hold
    return {
        **rule,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": f"{{{{ $labels.instance }}}}: {alert.summary}", "description": alert.action},
    }


def board() -> str:
    panels: list[dict[str, Any]] = []
    y = 0
    for row in dict.fromkeys(figure.row for figure in FIGURES):
        panels.append({"type": "row", "title": row, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)})
        y += 1
        for number, figure in enumerate(figure for figure in FIGURES if figure.row == row):
            place = _place(number % COLUMNS * WIDTH, y + number // COLUMNS * HEIGHT, WIDTH, HEIGHT)
            panels.append(_panel(figure, place))
        y = panels[-1]["gridPos"]["y"] + HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return json.dumps({**BOARD, "panels": panels}, indent=1) + "\n"


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(figure: Figure, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "$source"}
    target = {"refId": "A", "datasource": source, "expr": panel_query(figure), "legendFormat": figure.legend}
    return {
        "type": "timeseries",
        "title": figure.title,
        "datasource": source,
        "gridPos": place,
        "targets": [target],
        "fieldConfig": {"defaults": {"unit": figure.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    }


INSTANCE = "label_values(nodeplane_supervisor_uptime_seconds, instance)"
BOARD: dict[str, Any] = {
    "uid": "nodeplane",
    "title": "nodeplane",
    "tags": ["nodeplane", "kubernetes"],
    "schemaVersion": 39,
    "editable": True,
    "time": {"from": "now-1h", "to": "now"},
    "refresh": "30s",
    "timezone": "browser",
    "templating": {
        "list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance",
                "label": "Plane",
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "$source"},
                "query": {"query": INSTANCE, "refId": "instance"},
                "definition": INSTANCE,
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            },
        ]
    },
    "annotations": {"list": []},
}


def page(text: str) -> str:
    """Return the page with its tables made anew between the marks."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{_tables()}{END}{rest.partition(END)[2]}"


def _tables() -> str:
    lines = ["| alert | severity | fires when | for | do |", "|---|---|---|---|---|"]
    lines += [f"| `{a.name}` | {a.severity} | `{_cell(a.query)}` | {a.hold} | {a.action} |" for a in ALERTS]
    lines += ["", "| recorded figure | on the board as | query |", "|---|---|---|"]
    lines += [f"| `{f.record}` | {f.row}: {f.title} | `{_cell(rule_query(f))}` |" for f in FIGURES if f.record]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def made() -> dict[Path, str]:
    """Return the files with what they should contain."""
    return {
        HERE / "rules.yaml": rules(),
        HERE / "board.json": board(),
        OPERATOR: prometheus_rule(),
        PAGE: page(PAGE.read_text()),
        reference.PAGE: reference.page(reference.PAGE.read_text()),
    }


if __name__ == "__main__":
    sys.exit(write_pages(made(), sys.argv[1:]))
