from typing import Any

from protocols.kube.meta import Object
from protocols.lifecycle.status.device_health import (
    Retention,
    health_entries,
    held_in,
    merged,
    reported_health,
    unknown,
    without_health,
)
from protocols.lifecycle.status.patch import status_patch
from protocols.messages.health import HeldContainer, HeldResource, PodHeld, ResourceHealth, ResourceStatus

GPU, CLAIM = "example.com/gpu", "claim:gpu/big"


def told(name: str, **devices: str) -> ResourceStatus:
    return ResourceStatus(name, tuple(ResourceHealth(one, health) for one, health in sorted(devices.items())))


def entry(name: str, **devices: str) -> Object:
    resources = [{"resourceID": one, "health": health} for one, health in sorted(devices.items())]
    return {"name": name, "resources": resources}


def known(*entries: Object) -> Any:
    return {"allocatedResourcesStatus": list(entries)}


def test_a_pod_that_goes_on_shows_what_health_says_and_no_more() -> None:
    assert health_entries(
        (told(GPU, g1="Unknown"),), known(entry(GPU, g1="Healthy"), entry(CLAIM, d="Healthy")), Retention.NOTHING
    ) == [entry(GPU, g1="Unknown")]
    assert health_entries((), known(entry(GPU, g1="Healthy")), Retention.NOTHING) == []


def test_a_pod_that_is_over_learns_but_does_not_forget() -> None:
    before = known(entry(GPU, g1="Unhealthy", g2="Healthy"), entry(CLAIM, d="Unhealthy"))
    assert health_entries((told(GPU, g1="Unknown", g2="Unhealthy", g3="Unknown"),), before, Retention.KNOWN) == [
        entry(GPU, g1="Unhealthy", g2="Unhealthy", g3="Unknown"),
        entry(CLAIM, d="Unhealthy"),
    ]
    assert health_entries((), before, Retention.KNOWN) == before["allocatedResourcesStatus"]
    assert health_entries((told(GPU, g1="Healthy"),), {}, Retention.KNOWN) == [entry(GPU, g1="Healthy")]


def test_before_devices_are_requested_only_reports_update_the_status() -> None:
    before = known(entry(GPU, g1="Unhealthy", g2="Healthy"), entry(CLAIM, d="Unhealthy"))
    assert health_entries((), before, Retention.UNREPORTED) == before["allocatedResourcesStatus"]
    assert health_entries((told(GPU, g1="Unknown"),), before, Retention.UNREPORTED) == [
        entry(GPU, g1="Unknown", g2="Healthy"),
        entry(CLAIM, d="Unhealthy"),
    ]


def test_unreported_devices_are_unknown() -> None:
    had = unknown((HeldResource(GPU, ("g1", "g2")),))
    assert health_entries(had, {}, Retention.KNOWN) == [entry(GPU, g1="Unknown", g2="Unknown")]
    assert health_entries(had, known(entry(GPU, g1="Unhealthy")), Retention.KNOWN) == [
        entry(GPU, g1="Unhealthy", g2="Unknown")
    ]


def test_what_was_held_can_be_read_from_what_is_shown() -> None:
    status: Any = {
        "containerStatuses": [{"name": "a", **known(entry(GPU, g2="Healthy", g1="Healthy"))}, {"name": "b"}],
        "initContainerStatuses": [{"name": "side", **known(entry(CLAIM, d="Unknown"))}],
        **known(entry("claim:spare", e="Healthy")),
    }
    shown = held_in(status)
    assert shown == PodHeld(
        (
            HeldContainer("a", (HeldResource(GPU, ("g1", "g2")),)),
            HeldContainer("side", (HeldResource(CLAIM, ("d",)),), init=True),
        ),
        (HeldResource("claim:spare", ("e",)),),
    )
    assert held_in({"phase": "Failed"}) == PodHeld()
    other = HeldContainer("b", (HeldResource(GPU, ("g9",)),))
    assert merged(PodHeld((other,)), shown) == PodHeld((other, *shown.containers), shown.pod)
    assert merged(shown, PodHeld()) == shown


def test_the_status_without_it() -> None:
    status: Any = {
        "phase": "Running",
        "containerStatuses": [{"name": "a", **known(entry(GPU, g1="Healthy"))}],
        **known(entry(CLAIM, d="X")),
    }
    assert without_health(status) == {"phase": "Running", "containerStatuses": [{"name": "a"}]}
    assert reported_health(status) != reported_health(status | known())
    assert reported_health(without_health(status)) == {}


def test_only_the_pod_s_own_entries_that_changed_are_sent() -> None:
    old = known(entry("claim:a", d="Healthy"), entry("claim:b", e="Healthy"), entry("claim:c", f="Healthy"))
    new = known(entry("claim:a", d="Unhealthy"), entry("claim:b", e="Healthy"))
    patch = status_patch("u", old, new)
    assert patch is not None
    assert patch["status"] == {
        "allocatedResourcesStatus": [entry("claim:a", d="Unhealthy"), {"name": "claim:c", "$patch": "delete"}]
    }
