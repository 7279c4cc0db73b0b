"""Names, ids, filters, commands, signals, durations: the rules without any process."""

import os
import signal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.model.containers import Container, ContainerRecord, Life, Sandbox, SandboxRecord
from actors.runtime.model.cri_messages import container_status, image_id, image_ref, sandbox_status
from actors.runtime.model.errors import AmbiguousId, InvalidRequest, NameReserved, NotFound, SubscriberTooSlow
from actors.runtime.model.pods import Clock, Reservations, RuntimePods, resolve
from actors.runtime.operations.containers import stop_signal
from actors.runtime.spec import command
from actors.runtime.spec.users import shown_user
from actors.runtime.state.container_events import ContainerEvents
from protocols.lifecycle.errors import HollowInvalid
from protocols.lifecycle.pods import hollow
from protocols.lifecycle.pods.hollow import parse_duration
from protocols.wire import cri_pb2 as pb


def sandbox(name: str = "a", at: int = 1, id: str = "", **fields: Any) -> Sandbox:
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=name, namespace="ns", uid="u"), **fields)
    return Sandbox(SandboxRecord(id or f"5b{name}", at, "boot", b""), config)


def container(pod: Sandbox, name: str, at: int = 1, **fields: Any) -> Container:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name=name), **fields)
    return Container(ContainerRecord(f"c0{name}", pod.id, "boot", b"", Life(created_at=at)), config, pod)


def test_status_has_the_ids_that_a_container_runs_as() -> None:
    context = pb.LinuxContainerSecurityContext()
    assert shown_user(context, None) == (os.geteuid(), os.getegid(), os.getegid())
    made = container(sandbox(), "a")
    assert not container_status(made).HasField("user")
    made.record = msgspec.structs.replace(made.record, user=(5, 6, 7))
    assert container_status(made).user.linux == pb.LinuxContainerUser(uid=5, gid=6, supplemental_groups=[7])


def pods() -> RuntimePods:
    held = RuntimePods()
    for at, name in ((2, "b"), (1, "a")):
        held.add_sandbox(sandbox(name, at, labels={"app": name}))
        held.add_container(container(held.sandboxes[f"5b{name}"], name, at, labels={"app": name, "x": "1"}))
    return held


def test_an_id_may_be_cut_short_while_it_is_unique() -> None:
    entries = {"abc1": 1, "abd2": 2}
    assert resolve(entries, "abc", "container") == 1
    with pytest.raises(AmbiguousId, match="prefix of 2"):
        resolve(entries, "ab", "container")
    for unknown in ("x", "", "abc11"):
        with pytest.raises(NotFound):
            resolve(entries, unknown, "container")


def test_names_stay_reserved_with_the_text_that_tools_match() -> None:
    names = Reservations("sandbox", "RunPodSandbox")
    names.reserve("k", "1")
    with pytest.raises(NameReserved, match="check if another RunPodSandbox request is in progress"):
        names.reserve("k", "2")
    names.settle("k")
    with pytest.raises(NameReserved) as caught:
        names.reserve("k", "2")
    assert str(caught.value) == 'failed to reserve sandbox name "k": name "k" is reserved for "1"'
    names.release("k")
    names.reserve("k", "2")


def test_lists_are_sorted_by_creation_and_filters_are_anded() -> None:
    held = pods()
    assert [entry.id for entry in held.list_containers()] == ["c0a", "c0b"]
    assert [entry.id for entry in held.list_sandboxes()] == ["5ba", "5bb"]
    assert [entry.id for entry in held.list_containers(labels={"x": "1", "app": "b"})] == ["c0b"]
    assert [entry.id for entry in held.list_containers(id="c0a", sandbox_id="5ba", state=0)] == ["c0a"]
    assert held.list_containers(id="c0a", sandbox_id="5bb") == []
    assert held.list_containers(state=1) == []
    assert held.list_containers(id="c0") == []  # ambiguous
    assert held.list_sandboxes(id="nope") == []


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3))
def test_a_label_filter_finds_exactly_what_has_every_pair(wanted: dict[str, str]) -> None:
    held = RuntimePods()
    all_labels = [{}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2", "c": "1"}]
    for number, labels in enumerate(all_labels):
        held.add_sandbox(sandbox(str(number), number + 1, labels=labels))
    found = [dict(entry.config.labels) for entry in held.list_sandboxes(labels=wanted)]
    assert found == [labels for labels in all_labels if wanted.items() <= labels.items()]


def test_only_pods_of_their_own_network_have_an_address() -> None:
    node = pb.LinuxPodSandboxConfig(
        security_context=pb.LinuxSandboxSecurityContext(namespace_options=pb.NamespaceOption(network=pb.NODE))
    )
    assert sandbox_status(sandbox()).network.ip
    assert sandbox_status(sandbox(linux=node)).network.ip == ""


def test_environment_is_the_callers_over_four_defaults() -> None:
    envs = [pb.KeyValue(key="A", value=b"\xff"), pb.KeyValue(key="PATH", value=b"/only")]
    made = command.spec(container(sandbox("p"), "c", command=["x"], args=["y"], envs=envs))
    from actors.runtime.shim.child import parse

    spec = parse(made)
    assert spec.argv == ["x", "y"]
    assert spec.env[b"A"] == b"\xff"
    assert spec.env[b"PATH"] == b"/only"
    assert spec.env[b"HOSTNAME"] == b"p"
    assert set(spec.env) == {b"A", b"PATH", b"HOSTNAME", b"HOME", b"TERM"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"image": pb.ImageSpec(image="nginx")}, "give the container a `command`"),
        ({"command": ["x"]}, "image.image is required"),
        (
            {
                "image": pb.ImageSpec(image="x"),
                "command": ["x"],
                "linux": pb.LinuxContainerConfig(
                    security_context=pb.LinuxContainerSecurityContext(run_as_group=pb.Int64Value(value=5))
                ),
            },
            "run_as_group needs",
        ),
        ({"image": pb.ImageSpec(image="hollow/x"), "annotations": {hollow.DURATION: "soon"}}, "not a duration"),
        ({"image": pb.ImageSpec(image="hollow/x"), "annotations": {hollow.EXIT_CODE: "256"}}, "0 to 255"),
    ],
)
def test_what_could_never_start_is_refused_at_creation(fields: dict[str, Any], says: str) -> None:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), **fields)
    with pytest.raises((InvalidRequest, HollowInvalid), match=says):
        command.check(config, pb.PodSandboxConfig())


@pytest.mark.parametrize("image", ["pause", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause@sha256:0", "hollow/x"])
def test_images_with_a_known_command_need_none(image: str) -> None:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image=image))
    assert (command.check(config, pb.PodSandboxConfig()) is not None) == image.startswith("hollow/")


def test_hollow_by_annotation_of_the_pod_and_not_by_the_containers_own() -> None:
    pod = pb.PodSandboxConfig(annotations={hollow.HOLLOW: "true", hollow.DURATION: "1.5s"})
    script = command.hollow_script(pb.ContainerConfig(), pod)
    assert script is not None
    assert script.duration_ns == 1_500_000_000
    assert command.hollow_script(pb.ContainerConfig(annotations={hollow.HOLLOW: "false"}), pod) is None
    ended = {hollow.OOM: "true", hollow.LOG: "one\ntwo"}
    script = command.hollow_script(pb.ContainerConfig(annotations=ended), pod)
    assert script is not None
    assert (script.exit_code, script.oom_killed, script.log) == (137, True, ("one", "two"))


@pytest.mark.parametrize(
    ("text", "ns"), [("1h2m3.5s", 3723_500_000_000), ("300ms", 300_000_000), ("1µs", 1000), ("7ns", 7)]
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1s ", "1d", "0s", "99999999999h"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(HollowInvalid):
        parse_duration(text)


def test_signal_numbers_are_not_the_kernels() -> None:
    assert stop_signal(pb.SIGNAL_SIGTERM) == signal.SIGTERM
    assert stop_signal(pb.SIGNAL_SIGKILL) == signal.SIGKILL
    assert stop_signal(pb.SIGNAL_RUNTIME_DEFAULT) == signal.SIGTERM
    assert stop_signal(pb.SIGNAL_SIGRTMIN) == signal.SIGRTMIN
    assert stop_signal(pb.SIGNAL_SIGRTMAX) == signal.SIGRTMAX
    assert stop_signal(999) == signal.SIGTERM
    named = {"SIGQUIT": 3, "quit": 3, "10": 10, "SIGRTMIN+3": int(signal.SIGRTMIN) + 3, "nonsense": 15, "99": 15}
    named |= {"RTMAX-3": int(signal.SIGRTMAX) - 3, "SIGRTMAX+1": 15, "SIGRTMIN+x": int(signal.SIGRTMIN), "-": 15}
    assert {text: stop_signal(0, text) for text in named} == named
    assert stop_signal(0, "9" * 5_000) == stop_signal(0, "SIGRTMIN+" + "9" * 5_000) == signal.SIGTERM
    assert stop_signal(pb.SIGNAL_SIGKILL, "SIGQUIT") == signal.SIGKILL


def test_a_pulled_reference_leads_back_to_its_image() -> None:
    assert image_ref(image_ref("a/b:1")) == image_ref("a/b:1")
    assert image_id(image_ref("a/b:1")) == image_id("a/b:1")


async def test_a_subscriber_that_does_not_read_loses_its_stream_and_nobody_waits() -> None:
    events = ContainerEvents(Clock(), ring=4)
    slow, quick = events.subscribe(), events.subscribe()
    reading = quick.events()
    for number in range(6):
        events.emit(pb.CONTAINER_CREATED_EVENT, str(number), sandbox())
        got = pb.ContainerEventResponse.FromString(await anext(reading))
        assert got.container_id == str(number)
    assert events.overflows == 1
    with pytest.raises(SubscriberTooSlow, match="more than 4 events"):
        await anext(slow.events())
