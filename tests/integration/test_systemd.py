"""The units of deploy/systemd, started by a systemd that boots in a container over this machine's files."""

import json
from pathlib import Path

import pytest

from tests.support import booted

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(why := booted.why_not()), reason=why or "a systemd can boot here"),
]

ADOPT = next(
    line for line in (UNITS / "nodeplane-adopt.service").read_text().splitlines() if line.startswith("ExecStart=")
)
FILES = {
    **{f"etc/systemd/system/{path.name}": path.read_text() for path in UNITS.glob("nodeplane*")},
    "etc/default/nodeplane": "PYTHONPATH=/opt/source\n",
    # as beside a kubelet: the plane's own sockets
    "etc/systemd/system/nodeplane-adopt.service.d/test.conf": f"""[Service]
Environment=PYTHONPATH=/opt/source
ExecStart=
{ADOPT} --pod-resources /var/lib/nodeplane/kubelet/pod-resources/kubelet.sock \\
    --runtime /var/lib/nodeplane/runtime/runtime.sock --metrics-port 0
""",
    # the watchdog's 30 s are long for a test
    "etc/systemd/system/nodeplane.service.d/test.conf": "[Service]\nWatchdogSec=3\nRestartSec=100ms\n",
    "pod.yaml": json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "lasting"},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "a", "image": "any", "command": ["sleep", "4242"]}],
            },
        }
    ),
}
SCRIPT = """
export KUBECONFIG=/var/lib/nodeplane/kubeconfig
fact() { echo "FACT $1=$(systemctl show "$2" --property "$3" --value)"; }
main() { systemctl show "$1" --property MainPID --value; }
try() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; false; }
restarted() { systemctl show nodeplane --property NRestarts,ActiveState --value | xargs | grep -q '^[1-9].* active'; }
pids() { cat $(find /sys/fs/cgroup -path "*nodeplane-$1.service/cgroup.procs") | sort -u; }
gone() { [ -z "$(sleeper)" ]; }
sleeper() { pgrep -x -f 'sleep 4242' || :; }
start() { systemctl start "$@" || { systemctl status 'nodeplane*' --no-pager --full --lines=200 || :; false; }; }

start nodeplane.target
for group in control watcher node; do
    fact "$group" "nodeplane-$group" ActiveState
    fact "$group.status" "nodeplane-$group" StatusText
done
start nodeplane-adopt
fact adopt nodeplane-adopt ActiveState
for group in control watcher adopt; do
    for pid in $(pids "$group"); do
        echo "FACT $group.$pid=$(grep -E 'CapBnd|NoNewPrivs|Seccomp:' "/proc/$pid/status" | cut -f 2 | xargs)"
    done
done

systemctl stop nodeplane-adopt

start nodeplane.service
fact up nodeplane ActiveState
fact control.then nodeplane-control ActiveState
try kubectl create -f /pod.yaml
kubectl wait --for=condition=Ready pod/lasting --timeout=30s
before=$(sleeper)
kill -STOP "$(main nodeplane)"  # it hangs: its watchdog acts
try restarted
journalctl --unit nodeplane | grep -q 'Watchdog timeout'
echo "FACT container=$before,$(sleeper)"
nodeplane down
try gone
fact down nodeplane ActiveState
fact down.result nodeplane Result
journalctl --output json --unit 'nodeplane*' --output-fields MESSAGE,PRIORITY,SYSLOG_IDENTIFIER >/results/journal
"""


def test_units_when_started_are_confined_and_outlive_a_hung_supervisor(tmp_path: Path) -> None:
    code, output = booted.run(SCRIPT, FILES, tmp_path)
    assert code == 0, output
    facts = dict(line.removeprefix("FACT ").split("=", 1) for line in output.splitlines() if line.startswith("FACT "))
    assert [facts[group] for group in ("control", "watcher", "node", "adopt", "up")] == ["active"] * 5
    assert facts["control.status"] == "4 of 4 actors serve"
    confined = {name: value for name, value in facts.items() if name.rpartition(".")[2].isdigit()}
    assert len(confined) >= 3 + 3 + 4 + 1 + 3, "supervisors, forkservers, actors of control, watcher and adopt"
    assert set(confined.values()) == {"0000000000000000 1 2"}, "no capability, no new privileges, a filter"
    assert facts["control.then"] == "inactive", "one service takes the place of three"
    before, after = facts["container"].split(",")
    assert before == after != "", "a container outlives a supervisor that hangs"
    assert (facts["down"], facts["down.result"]) == ("inactive", "success")
    lines = [json.loads(line) for line in (tmp_path / "results" / "journal").read_text().splitlines()]
    own = [line for line in lines if str(line["SYSLOG_IDENTIFIER"]).startswith("nodeplane")]
    assert not [line for line in own if str(line["MESSAGE"]).startswith("<")], "levels are read, not shown"
    ready = [line for line in own if "(pid " in line["MESSAGE"] and " ready in " in line["MESSAGE"]]
    assert {line["PRIORITY"] for line in ready} == {"6"}
    assert {line["SYSLOG_IDENTIFIER"] for line in ready} >= {"nodeplane", "nodeplane-control", "nodeplane-node"}
