"""CEL by the worker: a device and selector, a write with a policy, and the end of an evaluator.

`python -m tests.bench.cel_bench` measures evaluators in a process that loads nothing else, since they are forked.
"""

import asyncio
import gc
import http.client
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from actors.cel.evaluators import Evaluators
from protocols.cel.worker.loading import load
from protocols.cel.worker.local import wire_of
from protocols.cel.worker.messages import DriverDevices, Select, Selected, Work, decode_answer, encode
from tests.bench.row import Row, at_most
from tests.support.apiserver_plane import Plane

BATCH, ROUNDS, ENDS = 1000, 10, 20
DEVICE_US, REPLACED_MS, WRITE_MS = 4.0, 50.0, 0.4
DRIVER = "gpu3.example.com"
SELECTOR = 'device.attributes["ext.example.com"].exists(name, name == "pcieRoot")'
WRITES = 150
POLICIES = {
    "simple": "object.data.a != 'b'",
    "loop": "object.data.all(key, object.data[key] != 'b')",
    "pattern": "!object.data.a.matches('^b')",
    "worker": "object.data.a.find('^b') == ''",
}
POLICY_ROWS = {
    "simple": "a simple policy more",
    "loop": "a policy with a loop more",
    "pattern": "a policy with a pattern more",
    "worker": "a policy more that the worker evaluates",
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
Object = dict[str, Any]


def evaluator_rows() -> list[Row]:
    sizes = json.dumps([BATCH, ROUNDS, ENDS])
    command = [sys.executable, "-m", "tests.bench.cel_bench", sizes]
    found = json.loads(subprocess.run(command, check=True, timeout=120, capture_output=True).stdout)
    name = f"CEL: map, a device of {BATCH:,} that the worker holds, CPU of both processes"
    return [
        at_most(name, found["held"], "us", DEVICE_US, median(found["alone"])),
        Row("CEL: the same, sent", median(found["sent"]), "us"),
        at_most("CEL: from the end of an evaluator to the answer of another one", found["ends"], "ms", REPLACED_MS),
    ]


async def _evaluators(batch: int, rounds: int, ends: int) -> dict[str, list[float]]:
    from tests.bench.tracker_bench import slices

    devices = ([device for each in slices(40)[3::10] for device in each.devices] * (batch // 8))[:batch]
    deaths: list[float] = []
    evaluators = Evaluators(logging.getLogger("bench"), lambda death: deaths.append(time.perf_counter()))
    evaluators.start()
    try:
        batches = _Batches(evaluators, batch)
        sent = [await batches.cpu(lambda: dict(enumerate(map(wire_of, devices)))) for _ in range(rounds)]
        held = [await batches.cpu(dict) for _ in range(rounds)]
        return {
            "sent": sent,
            "held": held,
            "alone": _alone(devices, rounds),
            "ends": await _ends(evaluators, deaths, ends),
        }
    finally:
        evaluators.close()


class _Batches:
    """Evaluations of one batch, by CPU time of both processes a device."""

    def __init__(self, evaluators: Evaluators, batch: int) -> None:
        self._evaluators, self._batch = evaluators, batch

    async def cpu(self, new: Callable[[], dict[int, Any]]) -> float:
        """Microseconds."""
        before = self._spent()
        question = Select(SELECTOR, DriverDevices(DRIVER, tuple(range(self._batch)), new()))
        found = decode_answer((await self._evaluators.run(Work((encode(question),)))).answers[0])
        assert isinstance(found, Selected)
        return (self._spent() - before) / len(found.outcomes) * 1e6

    def _spent(self) -> float:
        return time.process_time() + sum(_nanos(pid) / 1e9 for pid in self._evaluators.pids)


def _nanos(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _alone(devices: list[Any], rounds: int) -> list[float]:
    """The evaluator in this process."""
    from protocols.cel.programs import compiled

    program, found = compiled(SELECTOR), []
    for _ in range(rounds):
        began = time.process_time()
        for device in devices:
            program.matches(DRIVER, device)
        found.append((time.process_time() - began) / len(devices) * 1e6)
    return found


async def _ends(evaluators: Evaluators, deaths: list[float], count: int) -> list[float]:
    """Milliseconds of a question whose evaluator is killed before it, from the death on."""
    found, question = [], encode(Select(SELECTOR, DriverDevices(DRIVER, ())))
    for _ in range(count):
        os.kill(evaluators.next_pid, signal.SIGKILL)
        await evaluators.run(Work((question,)))
        found.append((time.perf_counter() - deaths[-1]) * 1e3)
        await asyncio.sleep(0.05)
    return found


# a write


def policy_rows(plane: Plane) -> list[Row]:
    """What a policy adds to a write of one client; writes with and without one take turns."""
    client = _Client(plane)
    for name, expression in POLICIES.items():
        client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        policy, binding = _policy(name, expression)
        client.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
        client.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
        plane.until("the policy is in force", lambda name=name: client.write(name, "b")[0] == 422)  # type: ignore[misc]  # bound at once
    times: dict[str, list[float]] = {name: [] for name in ("default", *POLICIES)}
    for _ in range(WRITES):
        for name, taken in times.items():
            status, seconds = client.write(name, "a")
            assert status == 201
            taken.append(seconds * 1e3)
    plain = median(times["default"])
    rows = []
    for name, words in POLICY_ROWS.items():
        more = median(times[name]) - plain
        rows.append(Row(f"writes: {words}", more, "ms", target=f"<= {WRITE_MS:g} ms", ok=more <= WRITE_MS))
    return rows


class _Client:
    """One kept connection."""

    def __init__(self, plane: Plane) -> None:
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.tls(), timeout=60)
        self._number = 0

    def create(self, path: str, obj: Object) -> int:
        self._connection.request("POST", path, json.dumps(obj), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status in (201, 422), body
        return answer.status

    def write(self, namespace: str, text: str) -> tuple[int, float]:
        """Return the status and the seconds of a write."""
        self._number += 1
        obj = {"metadata": {"name": f"c{self._number}"}, "data": {"a": text, "more": "x" * 300}}
        began = time.perf_counter()
        status = self.create(f"/api/v1/namespaces/{namespace}/configmaps", obj)
        return status, time.perf_counter() - began


def _policy(name: str, expression: str) -> tuple[Object, Object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    chosen = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [name]}]}
    spec: Object = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": chosen},
        "validations": [{"expression": expression}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return {"metadata": {"name": name}, "spec": spec}, {"metadata": {"name": name}, "spec": binding}


def main(sizes: list[int]) -> None:
    load()
    gc.collect()
    gc.freeze()
    logging.disable()
    print(json.dumps(uvloop.run(_evaluators(*sizes))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
