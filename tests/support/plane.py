"""One whole plane in a root of its own, driven as a person would: by nodeplane and kubectl.

What tests poll (objects, the status of actors) is read without a process, which would take a processor from the plane.

Its engine is SQLite, or, with NODEPLANE_TEST_STORE=etcd, an etcd of its own that outlives what the test does to it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from actors.podworker.pods.volumes import bind_mounts as mounts
from protocols.process.layout import Layout
from supervisor.cli.main import main as nodeplane
from supervisor.client.connection import Asking, ask
from tests.support.actor_process import Process
from tests.support.commands import run_command, start_command
from tests.support.engine import ETCD, chosen, etcd_binary
from tests.support.plane_client import PATHS, create, forget, read, read_object
from tests.support.plane_client import ask as request
from tests.support.settings import BRIEF_GO
from tests.support.store_lab import etcd_process
from tests.support.waiting import until as until

BIN = Path(sys.executable).parent
REPO = Path(__file__).parents[2]
FORKED = "PYTEST_VERSION" in os.environ
"""Commands are forked in tests; benches measure the program."""


class Plane:
    """`with Plane() as plane:` starts it, and at the end stops it and proves that nothing is left."""

    def __init__(self, *flags: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.flags = list(flags)
        self.store = f"unix:{self.root}/run/store.sock"
        self._engine = contextlib.ExitStack()
        self.plugins: list[Process] = []
        self.environment = {**os.environ, "NODEPLANE_ROOT": str(self.root), "KUBECONFIG": str(self.root / "kubeconfig")}

    def __enter__(self) -> "Plane":
        try:
            self.up()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is not None:
                self.show_logs()
            self.end()
        finally:
            left = mounts.detach_below(self.root)  # a bound hostPath would be emptied with the root
            assert not left, f"still mounted: {left}"
            shutil.rmtree(self.root, ignore_errors=True)

    # the plane

    def up(self) -> str:
        if chosen() == ETCD and "--store" not in self.flags:
            self.store = self._engine.enter_context(etcd_process(etcd_binary()))
            self.flags += ["--store", f"etcd://{self.store}"]
        ports = [word for name in ("port", "metrics-port", "healthz-port") for word in (f"--{name}", "0")]
        flags = [*ports, "--store-sync", "normal", *self.flags]
        return self.nodeplane("up", "--detach", *flags, timeout=100)

    def down(self) -> None:
        self.nodeplane("down", timeout=100)

    def end(self) -> None:
        with self._engine:
            self._end()

    def _end(self) -> None:
        for plugin in self.plugins:
            stop(plugin)
        forget(self.root)
        if (self.root / "run").exists():
            self._here("down")
        left = until_nothing(self.processes)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"processes outlived the plane: {left}"
        sockets = [str(path) for path in self.root.rglob("*") if path.is_socket()]
        assert not [path for path in sockets if "/run/" in path], f"sockets outlived the plane: {sockets}"

    def processes(self) -> dict[int, str]:
        """Pids whose command line or environment names this root, or that work in it (plugins of the test apart)."""
        mine = {plugin.pid for plugin in self.plugins} | {os.getpid()}
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in mine:
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    around = (entry / "environ").read_bytes().decode(errors="replace")
                    below = (entry / "cwd").readlink() == self.root
                except OSError:
                    continue
                named = str(self.root) in line or f"NODEPLANE_ROOT={self.root}\0" in around + "\0"
                if state != "Z" and (below or named):
                    found[int(entry.name)] = line or "?"
        return found

    def show_logs(self) -> None:
        for log in sorted((self.root / "logs").glob("*.log")):
            tail = log.read_text(errors="replace").splitlines()[-60:]
            if tail:
                print(f"--- {log.name}", *tail, sep="\n", file=sys.stderr)

    # commands

    def nodeplane(self, *arguments: str, timeout: float = 60, check: bool = True) -> str:
        if not FORKED or "PYTHONPATH" in self.environment:  # only a new interpreter would see that
            return run([str(BIN / "nodeplane"), *arguments], self.environment, timeout, check)
        from tests.support.json_outputs import check_output  # by a library of tests, which benches do without

        printed = output(run_command(arguments, self.environment, timeout), check)
        check_output(arguments, printed)
        return printed

    def chaos(self, *arguments: str) -> None:
        """Give an order of `nodeplane chaos`."""
        assert self._here("chaos", *arguments) == 0, f"chaos {arguments}: see what it printed"

    def kill(self, actor: str) -> None:
        """Kill an actor; return when its supervisor knows, so that what is asked next is asked of its next life."""
        before = self.status()[actor]["pid"]
        self.chaos("kill", actor)
        until(f"{actor} is dead", lambda: self.status()[actor]["pid"] != before)

    def _here(self, *arguments: str) -> int:
        """Run a command in this process: an interpreter of its own costs 0.2 s of a processor."""
        with ThreadPoolExecutor(1) as apart:  # from the event loop that the test may have
            return apart.submit(nodeplane, ["--root", str(self.root), *arguments]).result()

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = 90, check: bool = True) -> str:
        around = self.environment | BRIEF_GO | {"HOME": str(self.root)}
        return run([str(BIN / "kubectl"), *arguments], around, timeout, check, stdin)

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """The object, or {} when it does not exist or the API is away for the moment."""
        return read_object(self.root, f"{PATHS[kind].format(namespace=namespace)}/{name}")

    def list(self, kind: str, namespace: str = "default") -> "list[dict[str, Any]]":
        """The objects of a namespace, or of the cluster; [] when the API is away for the moment."""
        return list(read_object(self.root, PATHS[kind].format(namespace=namespace)).get("items", ()))

    def apply(self, manifest: "dict[str, Any] | Path") -> None:
        if isinstance(manifest, Path):
            self.kubectl("apply", "-f", str(manifest))
        elif not create(self.root, manifest):
            self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def delete(
        self, kind: str, *names: str, wait: bool = True, grace_s: int | None = None, timeout: float = 90
    ) -> None:
        """Delete objects as kubectl does, which waits until they are gone if it is not told otherwise.

        Others of their names, as a new mirror, may be there by then.
        """
        grace = "" if grace_s is None else f"&gracePeriodSeconds={grace_s}"
        deleted: dict[str, str] = {}
        for name in names:
            path = f"{PATHS[kind].format(namespace='default')}/{name}"
            status, body = request(self.root, "DELETE", f"{path}?propagationPolicy=Background{grace}")
            assert status in (200, 202), f"{path} is not deleted: {status} {body.decode(errors='replace')}"
            answer = json.loads(body)
            deleted[path] = str(answer.get("details", answer["metadata"])["uid"])
        if wait:
            until(f"{names} gone", lambda: all(self._is_gone(*each) for each in deleted.items()), timeout)

    def _is_gone(self, path: str, uid: str) -> bool:
        status, body = request(self.root, "GET", path)
        return status == 404 or (status == 200 and json.loads(body)["metadata"]["uid"] != uid)

    def events(self, name: str = "", reason: str = "") -> Sequence[dict[str, Any]]:
        """The events of all namespaces, or those about what has this name, or with this reason; [] as `list`."""
        found = read_object(self.root, "/api/v1/events").get("items", ())
        named = (event for event in found if name in ("", event["involvedObject"].get("name")))
        return [event for event in named if reason in ("", event["reason"])]

    def status(self) -> dict[str, dict[str, Any]]:
        """Actor status by instance."""
        layout = Layout(self.root, self.root / "kubelet")
        with ThreadPoolExecutor(1) as apart:  # from the event loop that the test may have
            answer = apart.submit(ask, layout, Asking.status).result()
        return {actor.instance: msgspec.to_builtins(actor) for actor in answer.actors}

    def plugin(self, resource: str = "example.com/gpu", devices: int = 4, numa: int = 2) -> Process:
        flags = ["--resource", resource, "--devices", str(devices), "--numa", str(numa)]
        return self.start("plugin", *flags, log=f"plugin-{len(self.plugins)}.log")

    def start(self, *words: str, log: str) -> Process:
        """Start a command that runs on, a plugin or driver; it ends with the plane and writes to a file of the root."""
        begin = start_command if FORKED else start_program
        process = begin(words, self.environment, self.root / log)
        self.plugins.append(process)
        return process

    # waiting

    def pod_phase(self, name: str, phase: str, timeout: float = 60) -> dict[str, Any]:
        def holds() -> dict[str, Any]:
            pod = self.get("pod", name)
            return pod if pod.get("status", {}).get("phase") == phase else {}

        return until(f"pod {name} {phase}", holds, timeout, every=0.2)

    def pod_ready(self, name: str, timeout: float = 60) -> dict[str, Any]:
        def holds() -> dict[str, Any]:
            pod = self.get("pod", name)
            return pod if condition(pod, "Ready") == "True" else {}

        return until(f"pod {name} Ready", holds, timeout, every=0.2)

    def served(self, timeout: float = 60) -> None:
        """Somebody answers at the API's port, and has all there is: after an API process was killed."""
        until("the API answers", lambda: read(self.root, "/readyz") == b"ok", timeout)

    def settled(self, timeout: float = 60) -> dict[str, dict[str, Any]]:
        """Every actor live and every replica at its owner's position."""
        return until("all actors live and synced", lambda: settled_view(self.status()), timeout, every=0.2)


def synced_view(actors: dict[str, dict[str, Any]]) -> bool:
    """Every actor is ready, and every replica says that it is in step with its owner's present life."""
    if not actors or any(actor["state"] not in ("ready", "live") or not actor["beat"] for actor in actors.values()):
        return False
    epochs = {name: actor["beat"]["epoch"] for name, actor in actors.items()}
    follows = [stream for actor in actors.values() for stream in actor["beat"]["follows"]]
    return all(stream["synced"] and stream["epoch"] == epochs.get(stream["owner"]) for stream in follows)


def settled_view(actors: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The status itself when, beyond that, all positions are equal; they are as old as the last beat, a second."""
    if any(actor["state"] != "live" or not actor.get("beat") for actor in actors.values()):
        return {}
    owned = {
        (name, stream["stream"]): (actor["beat"]["epoch"], stream["seq"])
        for name, actor in actors.items()
        for stream in actor["beat"]["owns"]
    }
    for actor in actors.values():
        for stream in actor["beat"]["follows"]:
            position = owned.get((stream["owner"], stream["stream"]))
            if not stream["synced"] or position != (stream["epoch"], stream["seq"]):
                return {}
    return actors


def condition(obj: dict[str, Any], kind: str) -> str:
    conditions = obj.get("status", {}).get("conditions", [])
    return next((str(item["status"]) for item in conditions if item["type"] == kind), "")


def start_program(words: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    with log.open("ab") as out:
        return subprocess.Popen([str(BIN / "nodeplane"), *words], env=environment, stdout=out, stderr=out)


def stop(process: Process) -> None:
    """End one process this test started, in order if it lets us."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def until_nothing(find: Callable[[], dict[int, str]], timeout: float = 30.0) -> dict[int, str]:
    deadline = time.monotonic() + timeout
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def run(command: list[str], environment: dict[str, str], timeout: float, check: bool, stdin: str = "") -> str:
    done = subprocess.run(
        command, env=environment, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    return output(done, check)


def output(done: "subprocess.CompletedProcess[str]", check: bool) -> str:
    if check and done.returncode:
        raise AssertionError(f"{' '.join(done.args)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout if check or done.returncode == 0 else ""
