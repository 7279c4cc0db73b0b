"""The grammar of crash scripts, and what it says to those who do not know it."""

import contextlib
import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.patches.json_patch import apply_merge_patch
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object
from protocols.messages import devices
from protocols.messages.supervisor import ActorStatus, FollowedStream, Heartbeat, OwnedStream
from supervisor.base.errors import UsageError
from supervisor.chaos import player
from supervisor.chaos.conditions import behind_of, pod_words
from supervisor.chaos.orders import apply
from supervisor.chaos.player import Player
from supervisor.chaos.script import EXPECTED, SYNTAX, ScriptFailed, ScriptInvalid, parse
from supervisor.client.devices import DeviceRow
from tests.support.memory_api import _shape

WHOLE = """
# a comment
apply pod.yaml &
repeat 3   # three times
  kill store any
  repeat 2
    wait 0.1
  end
end
join
expect pod p ready within 5
"""


def test_a_whole_script() -> None:
    apply, repeat, join, expect = parse("s", WHOLE).steps
    assert (apply.verb, apply.words, apply.background, apply.line) == ("apply", ("pod.yaml",), True, 3)
    kill, inner = repeat.body
    assert (kill.words, kill.background, inner.words, len(inner.body)) == (("store", "any"), False, ("2",), 1)
    assert join.verb == "join"
    assert (expect.words, expect.within) == (("pod", "p", "ready"), 5.0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("explode store", "'explode' is none of kill, stop, continue"),
        ("kill", "it is followed by ACTOR"),
        ("restart store cri", "it is followed by ACTOR"),
        ("scale apiserver 2", "'apiserver' is none of watcher"),
        ("scale watcher many", "'many' is no number"),
        ("scale watcher 1.5", "1.5 is no whole number"),
        ("repeat 0.5\nwait 1\nend", "0.5 is no whole number"),
        ("wait -1", "-1 is not between 0 and 1000"),
        ("wait nan", "nan is not between"),
        ("device example.com/gpu gpu-0 broken", "'broken' is none of unhealthy, healthy, clear"),
        ("device gpu.example.com/vm/gpu-0 broken", "'broken' is none of unhealthy, healthy, clear, unknown"),
        ("device gpu-0", "it is followed by RESOURCE ID"),
        ("expect device gpu.example.com/vm/gpu-0 held", "'held' is none of healthy, unhealthy, unknown"),
        ("runtime explode", "'explode' is none of stall"),
        ("delete node vm", "'node' is none of pod"),
        ("expect", "expect what? one of pod, device, actor, plane"),
        ("expect pot p ready", "'pot' is none of pod, device, actor, plane"),
        ("expect pod p happy", "'happy' is none of ready, running"),
        ("expect pod p ready within", "`within` is followed by seconds"),
        ("expect pod p ready within soon", "'soon' is no number"),
        ("end", "there is no `repeat` to end"),
        ("repeat 2", "`repeat` has no `end`"),
        ("repeat 1\nrepeat 1\nrepeat 1\nrepeat 1\nend\nend\nend\nend", "nested too deep"),
        ("\n" * 1001, "lines are too many"),
    ],
)
def test_invalid_scripts_are_rejected_before_any_step(line: str, says: str) -> None:
    with pytest.raises(ScriptInvalid) as told:
        parse("s.txt", line)
    assert says in str(told.value)
    assert str(told.value).startswith("s.txt")


WORDS = st.sampled_from([*SYNTAX, *EXPECTED, "expect", "within", "&", "#", "any", "1", "ready", "\x00", "é"])


@given(st.lists(st.lists(WORDS | st.text(max_size=5), max_size=6).map(" ".join), max_size=12).map("\n".join))
def test_any_text_is_a_script_or_is_refused(text: str) -> None:
    with contextlib.suppress(ScriptInvalid):
        parse("s", text)


def test_what_a_pod_is() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert pod_words({}) == ["gone"]
    assert pod_words({"status": ready}) == ["running", "ready"]
    assert pod_words({"status": {"phase": "Failed", "containerStatuses": [{"restartCount": 2}]}}) == [
        "failed",
        "restarted",
    ]


@pytest.mark.parametrize(
    ("follow", "exactly", "behind"),
    [
        (FollowedStream("a", "s", 7, 3, 0, True), True, False),
        (FollowedStream("a", "s", 7, 2, 0, True), True, True),
        (FollowedStream("a", "s", 7, 2, 0, True), False, False),
        (FollowedStream("a", "s", 6, 3, 0, True), False, True),
        (FollowedStream("a", "s", 7, 3, 0, False), False, True),
        (FollowedStream("c", "s", 7, 3, 0, True), False, True),
    ],
)
def test_what_is_behind(follow: FollowedStream, exactly: bool, behind: bool) -> None:
    owner = Heartbeat(instance="a", pid=1, epoch=7, state="ready", owns=(OwnedStream("s", 3, 0),))
    follower = Heartbeat(instance="b", pid=2, epoch=9, state="ready", follows=(follow,))
    actors = {
        beat.instance: ActorStatus(beat.instance, "node", beat.pid, "live", 1.0, 0, "", beat)
        for beat in (owner, follower)
    }
    assert behind_of(actors, exactly) == ([("b", "s")] if behind else [])


class HasPod:
    """An API with a pod to which it added a mount and a request, as admission does."""

    def __init__(self) -> None:
        resources = {"limits": {"example.com/gpu": 2}, "requests": {"example.com/gpu": 2}}
        mounts = [{"name": "token", "mountPath": "/var/run/secrets"}]
        container = {"name": "main", "image": "busybox", "resources": resources, "volumeMounts": mounts}
        self.pod: Object = {"metadata": {"name": "pair"}, "spec": {"containers": [container]}}

    async def create(self, *_: Any) -> Object:
        raise ApiError(409, {"reason": "AlreadyExists", "message": "pair is there"})

    async def patch(self, resource: Resource, name: str, namespace: str, body: Any, kind: str = "merge") -> Object:
        strategic = kind == "strategic"
        self.pod = apply_strategic_patch(_shape(resource), self.pod, body) if strategic else apply_merge_patch(
            self.pod, body
        )  # fmt: skip
        return self.pod


async def test_apply_of_a_pod_that_is_there_keeps_what_the_server_added(tmp_path: Path) -> None:
    """The answer to an earlier attempt may have been lost; a pod's spec may not change."""
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"example.com/gpu": 2}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pair"}, "spec": {"containers": [container]}}
    (tmp_path / "pair.yaml").write_text(json.dumps(pod))
    api = HasPod()
    before = deepcopy(api.pod["spec"])

    async def given() -> HasPod:
        return api

    (step,) = parse("s", "apply pair.yaml").steps
    await apply(SimpleNamespace(api=given, directory=tmp_path), step)  # type: ignore[arg-type]  # stands for a Stage
    assert api.pod["spec"] == before


@pytest.mark.parametrize(
    ("line", "why"),
    [("apply gone.yaml", "gone.yaml: No such file or directory"), ("apply bad.yaml", "no metadata.name")],
)
async def test_script_with_a_bad_manifest_is_rejected_before_its_first_line(
    line: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Pod")
    begun: list[str] = []
    stage: Any = SimpleNamespace(directory=tmp_path)
    with pytest.raises(ScriptInvalid, match=rf"^s:3: {line}: .*{why}$"):
        await Player(parse("s", f"wait 0\nrepeat 2\n{line}\nend"), stage, begun.append, begun.append).play()
    assert begun == []


async def test_line_that_cannot_succeed_is_named() -> None:
    async def restart(name: str) -> None:
        raise UsageError(f"no actor is called {name!r}")

    stage: Any = SimpleNamespace(asking=SimpleNamespace(restart=restart))
    with pytest.raises(ScriptInvalid, match=r"^s:1: restart podworkr: no actor is called"):
        await Player(parse("s", "restart podworkr"), stage, print).play()


@pytest.mark.parametrize("line", ["device a/b x unhealthy within 0", "expect device a/b x held within 0"])
async def test_line_that_waits_says_once_why(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reject(order: devices.ChaosDevice) -> None:
        raise UsageError("no device x of a/b; there are y")

    monkeypatch.setattr(player, "ANNOUNCED_S", 0.0)
    row = DeviceRow("a/b", "y", (), "Healthy", "", "", ())
    stage: Any = SimpleNamespace(asking=SimpleNamespace(override_health=reject), devices=lambda: [row])
    said: list[str] = []
    with pytest.raises(ScriptFailed, match=r"not within 0 s; instead: .*there are .*y$"):
        await Player(parse("s", line), stage, print, announce=said.append).play()
    assert [text.partition(": ")[0] for text in said] == ["waiting up to 0 s"]
    assert "there are" in said[0]
