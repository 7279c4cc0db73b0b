from collections import ChainMap
from collections.abc import Iterable, Mapping

import hypothesis.strategies as st
from hypothesis import given

from protocols.lifecycle.devices.status_table import pod_status
from protocols.messages.devices import (
    AllocatedDevice,
    ClaimDevice,
    ContainerAllocation,
    DeviceHealth,
    PodAllocation,
    PreparedClaim,
)
from protocols.messages.health import (
    HeldContainer,
    HeldResource,
    PodHeld,
    PodResourceStatus,
    ResourceStatus,
    health_key,
    held_by,
    truncate_message,
)

GPU, NIC, DRIVER = "example.com/gpu", "example.com/nic", "gpu.example.com"


def allocation(*containers: ContainerAllocation, claims: Iterable[PreparedClaim] = ()) -> PodAllocation:
    return PodAllocation(uid="u1", namespace="ns", name="p", containers=containers, claims=tuple(claims))


def holds(
    name: str, *devices: tuple[str, str], kind: str = "app", claims: Iterable[PreparedClaim] = ()
) -> ContainerAllocation:
    given_out = tuple(AllocatedDevice(r, i) for r, i in devices)
    return ContainerAllocation(name=name, kind=kind, devices=given_out, claims=tuple(claims))


Devices = tuple[tuple[str, tuple[str, ...]], ...]
"""Names, and the requests that each is of."""


def claim(*names: str, devices: Devices = (("dev-0", ()),)) -> PreparedClaim:
    made = tuple(ClaimDevice(DRIVER, "pool", device, requests=requests) for device, requests in devices)
    return PreparedClaim("ns", "claim-object", "c1", made, names)


def health(*entries: tuple[str, str, str, str]) -> dict[str, DeviceHealth]:
    return {health_key(r, i): DeviceHealth(r, i, state, message) for r, i, state, message in entries}


def shown(entries: Iterable[ResourceStatus]) -> list[tuple[str, list[tuple[str, str, str]]]]:
    return [(e.name, [(d.resourceID, d.health, d.message) for d in e.resources]) for e in entries]


def status_of(pod: PodAllocation, known: Mapping[str, DeviceHealth]) -> PodResourceStatus:
    return pod_status(pod.uid, held_by(pod), known)


def test_pod_status_apps_and_sidecars_sorted_by_resource_and_id() -> None:
    pod = allocation(
        holds("a", (NIC, "n1"), (GPU, "g2"), (GPU, "g1")),
        holds("init", (GPU, "g1"), kind="init"),
        holds("side", (GPU, "g3"), kind="sidecar"),
        holds("none"),
    )
    known = health((GPU, "g1", "Healthy", ""), (GPU, "g2", "Unhealthy", "ECC"), (NIC, "n1", "Healthy", ""))
    status = status_of(pod, known)
    assert list(status.containers) == ["a", "side"]
    assert shown(status.containers["a"]) == [
        (GPU, [("g1", "Healthy", ""), ("g2", "Unhealthy", "ECC")]),
        (NIC, [("n1", "Healthy", "")]),
    ]
    assert status.containers["side"][0].resources[0].health == "Unknown"


def test_pod_status_claims_follow_plugins_named_as_in_container() -> None:
    devices = (("dev-1", ("big",)), ("dev-0", ("small/half",)), ("dev-2", ()))
    pod = allocation(
        holds("a", (GPU, "g1"), claims=[claim("gpu/big", "gpu/small", "gpu/small/half", devices=devices)]),
        holds("b", claims=[claim("gpu", devices=devices)]),
        holds("init", kind="init", claims=[claim("gpu")]),
        claims=[claim("spare"), claim(devices=devices)],
    )
    known = ChainMap[str, DeviceHealth]({}, health(("claim:", f"{DRIVER}/pool/dev-1", "Unhealthy", "gone")))
    status = status_of(pod, known)
    one, two, three = (f"{DRIVER}/pool/dev-{n}" for n in range(3))
    x = "Unknown"
    assert shown(status.containers["a"]) == [
        (GPU, [("g1", x, "")]),
        ("claim:gpu/big", [(two, "Unhealthy", "gone"), (three, x, "")]),
        ("claim:gpu/small", [(one, x, ""), (three, x, "")]),
        ("claim:gpu/small/half", [(one, x, ""), (three, x, "")]),
    ]
    assert shown(status.containers["b"]) == [("claim:gpu", [(one, x, ""), (two, "Unhealthy", "gone"), (three, x, "")])]
    assert shown(status.pod) == [("claim:spare", [(one, x, "")])]
    assert "init" not in status.containers


def test_held_by_shows_init_containers_until_they_complete() -> None:
    pod = allocation(
        holds("fetch", (GPU, "g1"), kind="init"), holds("check", kind="init", claims=[claim("gpu")]), holds("a")
    )
    assert held_by(pod) == PodHeld()
    assert held_by(pod, ("check", "fetch")).containers == (
        HeldContainer("fetch", (HeldResource(GPU, ("g1",)),), init=True),
        HeldContainer("check", (HeldResource("claim:gpu", (f"{DRIVER}/pool/dev-0",)),), init=True),
    )
    assert [container.name for container in held_by(pod, ("check",)).containers] == ["check"]


def test_held_by_names_the_request_of_a_whole_claim_where_it_is_known() -> None:
    devices = (("dev-1", ("big",)), ("dev-0", ("small", "spare")))
    pod = allocation(
        holds("a", claims=[claim("gpu", devices=devices)]),
        holds("b", claims=[claim("gpu/big", "gpu", devices=devices)]),
        claims=[claim("nic", devices=(("dev-2", ("only",)),))],
    )

    def names(held: PodHeld) -> tuple[dict[str, list[str]], list[str]]:
        return {c.name: [r.name for r in c.resources] for c in held.containers}, [r.name for r in held.pod]

    every = ["claim:gpu/big", "claim:gpu/small", "claim:gpu/spare"]
    assert names(held_by(pod)) == ({"a": every, "b": every}, ["claim:nic/only"])
    assert names(held_by(pod, by_request=False)) == (
        {"a": ["claim:gpu"], "b": ["claim:gpu/big", "claim:gpu"]},
        ["claim:nic"],
    )
    assert [r.ids for r in held_by(pod).containers[0].resources] == [
        (f"{DRIVER}/pool/dev-1",), (f"{DRIVER}/pool/dev-0",), (f"{DRIVER}/pool/dev-0",)
    ]  # fmt: skip


def test_pod_status_extended_resource_by_claim_is_named_as_container_requests_it() -> None:
    made = tuple(ClaimDevice(DRIVER, "pool", f"dev-{n}", requests=(f"r{n}",)) for n in (1, 0, 2))
    backing = PreparedClaim("ns", "c", "c1", made, resources={"r0": "b.dev/gpu", "r1": "b.dev/gpu", "r2": GPU})
    pod = allocation(holds("a", (NIC, "n1"), claims=[claim("gpu"), backing]), holds("b", claims=[backing]))
    known = health((NIC, "n1", "Healthy", ""), ("claim:", f"{DRIVER}/pool/dev-1", "Unhealthy", "fan"))
    status = status_of(pod, known)
    by_claim = [
        ("b.dev/gpu", [(f"{DRIVER}/pool/dev-0", "Unknown", ""), (f"{DRIVER}/pool/dev-1", "Unhealthy", "fan")]),
        (GPU, [(f"{DRIVER}/pool/dev-2", "Unknown", "")]),
    ]
    assert shown(status.containers["b"]) == by_claim
    assert shown(status.containers["a"]) == [
        *by_claim, (NIC, [("n1", "Healthy", "")]), ("claim:gpu", [(f"{DRIVER}/pool/dev-0", "Unknown", "")])
    ]  # fmt: skip
    assert held_by(pod, by_request=False).containers[1] == held_by(pod).containers[1]


def test_held_by_shared_device_listed_once_and_empty_request_omitted() -> None:
    twice = PreparedClaim(
        "ns", "c", "c1", tuple(ClaimDevice(DRIVER, "pool", "dev-0", share_id=share) for share in "ab"), ("gpu",)
    )
    held = held_by(allocation(holds("a", claims=[twice, claim("nic", devices=())])))
    assert held.containers == (HeldContainer("a", (HeldResource("claim:gpu", (f"{DRIVER}/pool/dev-0",)),)),)


def test_held_by_no_devices_is_empty() -> None:
    assert held_by(allocation(holds("a"))) == PodHeld()


def test_pod_status_unrecognized_state_is_unknown() -> None:
    pod = allocation(holds("a", (GPU, "g1")))
    status = status_of(pod, health((GPU, "g1", "PermanentlyUnhealthy", "it is dead")))
    assert shown(status.containers["a"]) == [(GPU, [("g1", "Unknown", "it is dead")])]


@given(st.text(max_size=40).map(lambda text: text * 60))
def test_truncate_message_overlong_keeps_whole_characters(text: str) -> None:
    short = truncate_message(text)
    raw = short.encode()
    whole = text.encode(errors="replace").decode()
    assert len(raw) <= 1024
    assert short == whole or (short.endswith("...") and whole.startswith(short[:-3]) and len(raw) > 1017)


names = st.sampled_from(["gpu", "gpu/a", "gpu/a/x", "gpu/b", "nic"])
claims = st.lists(
    st.builds(
        PreparedClaim,
        namespace=st.just("ns"),
        name=st.sampled_from("cd"),
        uid=st.just("u"),
        devices=st.lists(
            st.builds(
                ClaimDevice,
                driver=st.sampled_from([DRIVER, "nic.example.com"]),
                pool=st.just("p"),
                device=st.sampled_from(["d0", "d1"]),
                share_id=st.sampled_from(["", "s"]),
                requests=st.lists(st.sampled_from(["a", "b/x"]), max_size=2).map(tuple),
            ),
            max_size=4,
        ).map(tuple),
        names=st.lists(names, max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)
containers = st.lists(
    st.builds(
        ContainerAllocation,
        name=st.sampled_from("abc"),
        kind=st.sampled_from(["app", "sidecar", "init"]),
        devices=st.lists(
            st.builds(AllocatedDevice, resource=st.sampled_from([GPU, NIC]), id=st.sampled_from("123")), max_size=4
        ).map(tuple),
        claims=claims,
    ),
    max_size=3,
    unique_by=lambda c: c.name,
).map(tuple)
pods = st.builds(
    PodAllocation, uid=st.just("u"), namespace=st.just("ns"), name=st.just("p"), containers=containers, claims=claims
)


@given(pods, st.sampled_from(["Healthy", "Unhealthy", "Unknown", "", "Worn"]))
def test_pod_status_any_pod_has_unique_entries_of_held_devices(pod: PodAllocation, state: str) -> None:
    status = status_of(pod, {f"{DRIVER}/p/d0": DeviceHealth("", f"{DRIVER}/p/d0", state)})
    for container in pod.containers:
        entries = status.containers.get(container.name, ())
        assert len({e.name for e in entries}) == len(entries)
        ids = {d.id for d in container.devices} | {
            f"{d.driver}/{d.pool}/{d.device}" for c in container.claims for d in c.devices
        }
        for entry in entries:
            ids_shown = [d.resourceID for d in entry.resources]
            assert ids_shown
            assert ids_shown == sorted(set(ids_shown))
            assert set(ids_shown) <= ids
            assert {d.health for d in entry.resources} <= {"Healthy", "Unhealthy", "Unknown"}
        if container.kind != "init":
            assert {e.name for e in entries} >= {d.resource for d in container.devices}
        else:
            assert not entries
