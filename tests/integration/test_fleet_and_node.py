"""The same pods on a real node and on a simulated one that was recorded from it show the same.

All scenarios run at once; each test then compares one: the status in the end, what led to it, and events. A simulated
node differs in what these tables name and in `DIFFERENT` of the scenarios, and in nothing else.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.node_scenarios import (
    CLASS,
    DIFFERENT,
    DRIVER,
    PLUGIN,
    SCENARIOS,
    Object,
    Place,
    Scenario,
    Until,
    statuses,
)
from tests.support.plane import Plane, until
from tests.support.pod_watch import Key, PodHistory
from tests.support.waiting import Late

REAL, COPY = "real", "real-0"
"""Names of the real node and of the simulated one."""
DEVICES = 4
ITS_OWN = {
    "startTime": "time",
    "lastTransitionTime": "time",
    "lastProbeTime": "time",
    "startedAt": "time",
    "finishedAt": "time",
    "hostIP": "address",
    "podIP": "address",
    "ip": "address",
    "containerID": "its id, and `hollow://` before it in a fleet",
    "imageID": "there is no image in a fleet: its name",
}
"""Fields with a value of its own in each pod."""
UNRECORDED = {
    "Pulled": "no event of a container's ordinary life: ten thousand pods would have forty thousand",
    "Created": "as Pulled",
    "Started": "as Pulled",
    "Killing": "as Pulled",
    "Unhealthy": "nor of its probes; their outcome shows in its status",
    "NotEnforced": "a fleet opens no port at all",
}
"""Reasons of events that only a real node records."""
PASSING = ("ContainerCreating", "PodInitializing", "RestartingAllContainers")
"""Reasons for waiting that nothing has to be seen of: a fleet writes what there is after a step."""


class Pair:
    """A plane with a real node, and a fleet of one node beside it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.history = PodHistory(plane.root)
        processors = int(plane.get("node", REAL)["status"]["capacity"]["cpu"])
        self.places = (
            Place(plane, REAL, "on-real", processors, self._break_real),
            Place(plane, COPY, "on-copy", processors, self._break_copy),
        )

    def start(self) -> None:
        """Create the pods of all scenarios."""
        for place in self.places:
            self.plane.kubectl("create", "namespace", place.namespace)
        for place in self.places:
            space = place.namespace
            until("account", lambda space=space: self.plane.get("serviceaccount", "default", space))  # type: ignore[misc] # bound at once
            _make_claims(place)
        for scenario in (*SCENARIOS, *(each for each, _ in DIFFERENT)):
            for place in self.places:
                place.create(scenario.name, scenario.spec, annotations=dict(scenario.annotations))

    def play(self, scenario: Scenario) -> dict[str, list[list[Object]]]:
        """Follow a scenario to its end; return by pod what it showed until then on the real node and on the copy."""
        ends = {scenario.name: scenario.holds, **scenario.others}
        seen = [self._play_at(place, scenario) for place in self.places]
        shown = {name: [self._until((p.namespace, name), ends[name]) for p in self.places] for name in scenario.others}
        return {scenario.name: seen, **shown}

    def _play_at(self, place: Place, scenario: Scenario) -> list[Object]:
        key, passed = (place.namespace, scenario.name), 0
        for step in scenario.steps:
            seen = self._until(key, step.holds, passed)
            step.act(place, seen[-1])
            passed = len(seen) - 1
        if scenario.gone:
            until(f"end of {key}", lambda: key in self.history.gone)
            return self.history.seen[key]
        return self._until(key, scenario.holds, passed)

    def _until(self, key: Key, holds: Until, passed: int = 0) -> list[Object]:
        """Wait until it holds for a pod; return what it showed until then. The first `passed` do not count."""

        def found() -> list[Object]:
            seen = self.history.seen.get(key, [])
            at = next((at for at, pod in enumerate(seen) if at >= passed and holds(pod)), None)
            return [] if at is None else seen[: at + 1]

        try:
            return until(f"end of {key}", found, every=0.02)
        except Late as error:
            raise AssertionError(f"{error}: {self.history.last(key).get('status')}") from None

    def events(self, place: Place, names: list[str], seen: list[list[Object]]) -> set[tuple[str, ...]]:
        """Return the events of pods, without what each has of its own."""
        known = {name: Shown(pods[-1]) for name, pods in zip(names, seen, strict=True)}
        found: set[tuple[str, ...]] = set()
        for event in self.plane.list("event", place.namespace):
            pod = known.get(event["involvedObject"]["name"])
            if pod is not None and event["reason"] not in UNRECORDED:
                name, path = event["involvedObject"]["name"], event["involvedObject"].get("fieldPath", "")
                found.add((name, path, event["type"], event["reason"], pod.text(event["message"])))
        return found

    def _break_real(self, source: str, device: str, health: str) -> None:
        file = health_file(self.plane, source)
        file.with_suffix(".new").write_text(f"{device} {health}\n")
        os.replace(file.with_suffix(".new"), file)

    def _break_copy(self, source: str, device: str, health: str) -> None:
        kind = "--plugin" if source == PLUGIN else "--driver"
        self.plane.nodeplane("fleet", "fault", kind, source, "--devices", device, "--health", health)


def health_file(plane: Plane, source: str) -> Any:
    return plane.root / source.replace("/", "-")


def _make_claims(place: Place) -> None:
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}
    group, named = "apis/resource.k8s.io/v1", {"metadata": {"name": CLASS}}
    place.post(group, "resourceclaims", {**named, "spec": {"devices": devices}})
    place.post(group, "resourceclaimtemplates", {**named, "spec": {"spec": {"devices": devices}}})


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Plane("--node-name", REAL) as plane:
        for program, flag, source in (("plugin", "--resource", PLUGIN), ("dra-driver", "--driver", DRIVER)):
            words = (flag, source, "--devices", str(DEVICES), "--health-file", str(health_file(plane, source)))
            plane.start(program, *words, log=f"{program}.log")
        spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
        named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}}
        plane.kubectl("apply", "-f", "-", stdin=json.dumps({**named, "spec": spec}))
        until("devices", lambda: allocatable(plane) == str(DEVICES) and plane.list("resourceslice"))
        profile = plane.root / "copy.yaml"
        profile.write_text(plane.nodeplane("fleet", "record"))
        plane.start("fleet", "run", str(profile), log="fleet.log")
        until("the copy", lambda: plane.get("node", COPY) and len(plane.list("resourceslice")) == 2)
        pair = Pair(plane)
        try:
            pair.start()
            yield pair
        finally:
            pair.history.close()


def allocatable(plane: Plane) -> str:
    return str(plane.get("node", REAL).get("status", {}).get("allocatable", {}).get(PLUGIN))


def test_node_and_slices_are_as_recorded(pair: Pair) -> None:
    real, copy = (pair.plane.get("node", name) for name in (REAL, COPY))
    assert copy["status"]["allocatable"] == real["status"]["allocatable"]
    assert copy["status"]["capacity"] == real["status"]["capacity"]
    specs = [each["spec"] for each in pair.plane.list("resourceslice")]
    texts = [json.dumps({**spec, "pool": spec["pool"]["name"]}).replace(f'"{COPY}"', f'"{REAL}"') for spec in specs]
    assert json.loads(texts[0]) == json.loads(texts[1])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_pod_shows_the_same_on_both_nodes(pair: Pair, scenario: Scenario) -> None:
    found = pair.play(scenario)
    for name, (real, copy) in found.items():
        assert Shown(copy[-1]).status() == Shown(real[-1]).status(), name
        assert history(copy, bool(scenario.annotations)) == history(real, bool(scenario.annotations)), name
    names = list(found)
    sides = [(place, [found[name][at] for name in names]) for at, place in enumerate(pair.places)]

    def recorded() -> list[set[tuple[str, ...]]]:
        return [pair.events(place, names, seen) for place, seen in sides]

    until("the same events", recorded, 10, good=lambda events: events[0] == events[1])


@pytest.mark.parametrize(("scenario", "instead"), DIFFERENT, ids=lambda each: getattr(each, "name", ""))
def test_what_a_simulated_node_does_not_do(pair: Pair, scenario: Scenario, instead: Until) -> None:
    for place, holds in zip(pair.places, (scenario.holds, instead), strict=True):
        pair._until((place.namespace, scenario.name), holds)


def history(pods: list[Object], brief: bool) -> list[tuple[str, list[Any]]]:
    """Return what a pod went through: its phases, then by container its states and the health of its devices.

    A run that ended is left out if another one followed: a fleet need not have shown it between the two. `brief`: the
    containers end by themselves, so that nobody need have seen them run.
    """
    found: dict[str, list[Any]] = {"": []}
    for pod in pods:
        shown = pod.get("status", {})
        if not (brief and shown.get("phase") == "Running"):
            _add(found[""], (shown.get("phase"), shown.get("reason")))
        for status in statuses(pod):
            state = _state(status)
            if state[1] in PASSING or (brief and state[0] == "running"):
                continue
            runs = found.setdefault(status["name"], [])
            if runs and runs[-1][0] == "terminated" and runs[-1] != state:
                runs.pop()
            _add(runs, state)
    return sorted(found.items())


def _state(status: Object) -> tuple[Any, ...]:
    ((kind, state),) = status["state"].items()
    healths = [one["health"] for entry in status.get("allocatedResourcesStatus", ()) for one in entry["resources"]]
    return (kind, state.get("reason"), state.get("exitCode"), status["restartCount"], *healths)


def _add(items: list[Any], item: Any) -> None:
    if not items or items[-1] != item:
        items.append(item)


class Shown:
    """What a pod shows, without what each pod has of its own."""

    def __init__(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self._status = pod["status"]
        words = {metadata["uid"]: "UID", pod["spec"]["nodeName"]: "NODE", metadata["namespace"]: "NAMESPACE"}
        self._words = {
            re.compile(rf"(?<![a-z0-9-]){re.escape(word)}(?![a-z0-9-])"): kind for word, kind in words.items()
        }
        self._devices: dict[str, str] = {}

    def status(self) -> Object:
        """Return the status; the order of conditions has no meaning."""
        conditions = sorted(self._status["conditions"], key=lambda each: str(each["type"]))
        return dict(self._value({**self._status, "conditions": conditions}))

    def text(self, text: str) -> str:
        """Return a message without names, ids, and how much is free or used, which depends on the other pods."""
        for word, kind in self._words.items():
            text = word.sub(kind, text)
        return re.sub(r"\bgpu-\d\b", "DEVICE", re.sub(r"(Available|used): \d+", r"\1: N", text))

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(item, key) for item in value]
        return self._word(value, key) if isinstance(value, str) else value

    def _word(self, text: str, key: str) -> str:
        if key in ITS_OWN:
            return bool(text) * key
        if key == "resourceID":
            return self._devices.setdefault(text, f"device {len(self._devices)}")
        if key == "resourceClaimName":
            return text.rpartition("-")[0]
        return self.text(re.sub("^kube-api-access-.....$", "token", text))
