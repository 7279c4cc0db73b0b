"""What the recorder leaves out of objects, and the ends of logs and the metrics that it reads."""

from pathlib import Path
from typing import Any

from actors.recorder.log_files import END, PER_PASS, ContainerLogs, Lines, last_lines
from actors.recorder.polls import LONGEST, MOST, SERVER_EVERY, MetricsSampler
from actors.recorder.streams import redacted
from protocols.bus import Unavailable
from protocols.kube.meta import LAST_APPLIED
from protocols.messages.calls import HIDDEN
from protocols.messages.supervisor import MetricsText


def test_values_of_variables_and_the_copied_manifest_are_left_out() -> None:
    reference = {"secretKeyRef": {"name": "login", "key": "password"}}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        request = {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "hunter4"}]}}
        env = [{"name": "A", "value": "hunter2"}, {"name": "B", "valueFrom": reference}, {"name": "C"}]
        pod = {
            "metadata": {"annotations": {LAST_APPLIED: "hunter3"}, "managedFields": [1]},
            "spec": {kind: [{"env": env, "livenessProbe": request, "lifecycle": {"preStop": request}}]},
        }
        found = redacted(pod)
        assert "hunter" not in str(found)
        assert found["spec"][kind][0]["env"] == [
            {"name": "A", "value": HIDDEN},
            {"name": "B", "valueFrom": reference},
            {"name": "C"},
        ]
        assert "managedFields" not in found["metadata"]


def test_objects_of_a_wrong_shape_are_left_as_they_are() -> None:
    shapes: tuple[Any, ...] = (
        {},
        {"metadata": 7},
        {"spec": []},
        {"spec": {"containers": [7, {"env": {"value": "x"}, "lifecycle": 7, "readinessProbe": {"httpGet": []}}]}},
    )
    for shape in shapes:
        assert redacted(shape) == shape


def test_fields_of_managers_stay_while_a_finalizer_holds_the_object() -> None:
    metadata = {"finalizers": ["a/b"], "managedFields": [1]}
    assert redacted({"metadata": metadata})["metadata"]["managedFields"] == [1]


def log(root: Path, pod: str, attempt: int, *lines: str) -> Path:
    path = root / pod / "main" / f"{attempt}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"2026-01-02T03:04:05Z stdout {line}\n" for line in lines))
    return path


def test_newest_log_of_a_container_is_read_when_it_changes(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path)
    assert logs.news() == ({}, [])
    log(tmp_path, "ns_a_uid", 9, "F old")
    log(tmp_path, "ns_a_uid", 10, "P be", "F gin", "F end")
    assert logs.news() == ({"ns/a/uid/main": ["begin", "end"]}, [])
    assert logs.news() == ({}, [])
    log(tmp_path, "ns_a_uid", 11, "F new run")
    assert logs.news() == ({"ns/a/uid/main": ["new run"]}, [])
    for path in (tmp_path / "ns_a_uid" / "main").iterdir():
        path.unlink()
    assert logs.news() == ({}, ["ns/a/uid/main"])


def test_logs_beyond_those_of_one_pass_come_with_the_next(tmp_path: Path) -> None:
    for number in range(PER_PASS + 3):
        log(tmp_path, f"ns_p{number}_uid", 0, "F x")
    logs = ContainerLogs(tmp_path)
    assert [len(logs.news()[0]) for _ in range(3)] == [PER_PASS, 3, 0]


def test_long_log_is_read_from_its_end_in_whole_lines(tmp_path: Path) -> None:
    found = last_lines(log(tmp_path, "ns_a_uid", 0, *(f"F {number:0100}" for number in range(2_000))))
    assert found[-1] == f"{1_999:0100}"
    assert [len(line) for line in found] == [100] * 20
    assert sum(map(len, last_lines(log(tmp_path, "ns_b_uid", 0, "F " + "x" * 5_000)))) <= END


def test_added_lines_of_an_actor_are_read_once_across_rotation(tmp_path: Path) -> None:
    lines = Lines(tmp_path)
    path = tmp_path / "store.log"
    (tmp_path / "audit.log").write_text("GET /api\n")
    path.write_text("one\ntwo\nhal")
    assert list(lines.news()) == [("store", "one"), ("store", "two")]
    path.write_text("one\ntwo\nhalf\n")
    assert list(lines.news()) == [("store", "half")]
    path.write_text("new\n")
    assert list(lines.news()) == [("store", "new")]
    assert list(lines.news()) == []


class Pages:
    """A bus whose processes answer with these pages; the others are away."""

    def __init__(self, **pages: str) -> None:
        self._pages = pages

    async def call(self, name: str, *_: Any, **__: Any) -> MetricsText:
        if name not in self._pages:
            raise Unavailable(f"{name} is away")
        return MetricsText(self._pages[name])


COMMITS, WINDOW = "nodeplane_store_commits_total", 'nodeplane_replica_window{group="",resource="pods"}'


async def test_small_pages_are_sampled_each_time_and_api_processes_in_turn() -> None:
    pages: Any = Pages(**{"store": f"# HELP\n{COMMITS} 7\nother 1\n", "a": "", "apiserver-0": f"{WINDOW} 1\n"})
    pages._pages["apiserver-1"] = f"{WINDOW} 2\n"
    metrics, names = MetricsSampler(pages), ["apiserver-0", "apiserver-1", "devices", "pleg", "store"]
    found = [await metrics.read(names) for _ in range(2 * SERVER_EVERY + 1)]
    assert [sorted(each) for each in found[:2]] == [["apiserver-0", "store"], ["store"]]
    assert [each["store"] for each in found] == [{COMMITS: 7}] * len(found)
    assert found[SERVER_EVERY]["apiserver-1"] == {WINDOW: 2}
    assert found[2 * SERVER_EVERY]["apiserver-0"] == {WINDOW: 1}
    assert "apiserver-1" in await metrics.read(names, last=True)


async def test_samples_of_a_process_are_bounded() -> None:
    lines = [f'{COMMITS}{{n="{number}"}} 1' for number in range(MOST + 5)]
    pages: Any = Pages(store="\n".join([f'{COMMITS}{{n="{"x" * LONGEST}"}} 1', *lines]))
    found = (await MetricsSampler(pages).read(["store"]))["store"]
    assert len(found) == MOST
    assert max(map(len, found)) <= LONGEST
