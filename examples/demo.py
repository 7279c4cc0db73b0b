"""The story of docs/tutorial.md, told by script: each step shows its evidence and is checked. `make demo` runs it.

It starts a plane of its own in a short-lived root on free ports, so that it disturbs nothing that runs already.
Exit code 0 when every check held.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor.base.progress import Progress, progress

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
ACTORS = (
    *("store", "watchcache", "apiserver-0", "scheduler", "controllers", "runtime"),
    *("cri", "pleg", "devices", "podworker", "health", "frontdoor"),
)


class Demo:
    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.done = 0
        """Steps that are over."""
        self.root = Path(tempfile.mkdtemp(prefix="npdemo", dir="/tmp"))
        self.environment = {
            **os.environ,
            "NODEPLANE_ROOT": str(self.root),
            "KUBECONFIG": str(self.root / "kubeconfig"),
            "HOME": str(self.root),
        }
        self.failures: list[str] = []
        self.background: dict[str, subprocess.Popen[str]] = {}

    def run(self, *command: str, quiet: bool = False, check: bool = True) -> str:
        if not quiet:
            print(f"$ {' '.join(command)}")
            self.progress.at(" ".join(command), self.done)
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        if not quiet:
            print(done.stdout + done.stderr, end="")
        if check and done.returncode:
            self.failures.append(f"{' '.join(command)} ended with {done.returncode}")
        return done.stdout

    def start(self, *command: str, log: str) -> None:
        print(f"$ {' '.join(command)} &")
        with (self.root / log).open("w") as output:
            process = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]], env=self.environment, stdout=output, stderr=output, text=True
            )
        self.background[log] = process

    def stop(self, log: str) -> None:
        """The process that writes there."""
        process = self.background.pop(log)
        process.terminate()
        process.wait(10)

    def check(self, what: str, holds: Callable[[], object], timeout: float = 20) -> None:
        """Wait until it holds, print how long that took, remember when it did not."""
        self.progress.at(what, self.done)
        began = time.monotonic()
        while not (answer := holds()) and time.monotonic() - began < timeout:
            time.sleep(0.05)
        mark = colored("✓", "green") if answer else colored("✗", "bold red")
        print(f"{mark} {what} ({time.monotonic() - began:.2f} s)")
        if not answer:
            self.failures.append(what)

    def get(self, *what: str) -> dict[str, Any]:
        text = self.run("kubectl", "get", *what, "-o", "json", quiet=True, check=False)
        return json.loads(text) if text else {}

    def pod(self) -> dict[str, Any]:
        return self.get("pod", "gpu-pod")

    def container(self) -> dict[str, Any]:
        return next(iter(self.pod().get("status", {}).get("containerStatuses", [])), {})

    def held(self) -> list[str]:
        """Devices the pod holds, as its status names them."""
        return list(self.devices("gpu-pod"))

    def health(self, device: str) -> str:
        return str(self.devices("gpu-pod").get(device, {}).get("health", ""))

    def devices(self, pod: str) -> dict[str, dict[str, str]]:
        """What the status of a pod says of each device of its container."""
        statuses = self.get("pod", pod).get("status", {}).get("containerStatuses", [{}])
        entries = statuses[0].get("allocatedResourcesStatus", [])
        return {device["resourceID"]: device for entry in entries for device in entry["resources"]}

    def watched(self) -> str:
        return (self.root / "watch.log").read_text()

    def actors(self) -> dict[str, Any]:
        text = self.run("nodeplane", "status", "-o", "json", quiet=True, check=False)
        return {actor["instance"]: actor for actor in json.loads(text)["actors"]} if text else {}

    def live(self) -> bool:
        actors = self.actors()
        return bool(actors) and all(actor["state"] == "live" for actor in actors.values())

    def ready(self) -> bool:
        conditions = self.pod().get("status", {}).get("conditions", [])
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def close(self) -> None:
        for log in list(self.background):
            self.stop(log)
        self.run("nodeplane", "down", quiet=True, check=False)
        shutil.rmtree(self.root, ignore_errors=True)


def colored(text: str, style: str) -> str:
    """Return the text in colour if the output is a terminal."""
    if not sys.stdout.isatty():
        return text
    from rich.console import Console

    console = Console()
    with console.capture() as capture:
        console.print(text, style=style, end="", markup=False, highlight=False, soft_wrap=True)
    return capture.get()


def title(text: str) -> None:
    print(colored(f"\n== {text}", "bold"))


def start(demo: Demo) -> None:
    title("1. Start the node")
    demo.run("nodeplane", "up", "--detach", "--port", "0", "--metrics-port", "0")
    demo.run("kubectl", "get", "nodes")
    demo.check("the node is Ready", lambda: "Ready" in demo.run("kubectl", "get", "nodes", quiet=True))


def plug(demo: Demo) -> None:
    title("2. A device plugin offers four devices")
    demo.start(
        "nodeplane", "plugin", "--resource", "example.com/gpu", "--devices", "4", "--numa", "2", log="plugin.log"
    )

    def four() -> bool:
        nodes = demo.get("nodes").get("items", [])
        return [node["status"]["allocatable"].get("example.com/gpu") for node in nodes] == ["4"]

    demo.check("the node's allocatable shows 4", four)
    demo.start("nodeplane", "watch", "pods", log="watch.log")


def apply(demo: Demo) -> None:
    title("3. A pod asks for two of them")
    demo.run("kubectl", "apply", "-f", str(HERE / "gpu-pod.yaml"))
    demo.check("the pod is Running and Ready", demo.ready)
    demo.run("kubectl", "get", "pods", "-o", "wide")
    demo.check("its status names two devices", lambda: len(demo.held()) == 2)
    demo.check("the watch printed it", lambda: "ADDED" in demo.watched() and "gpu-pod" in demo.watched())
    print(demo.watched(), end="")
    logs = sorted((demo.root / "pods-logs").rglob("*.log"))
    said = lambda: any("my devices: gpu-" in log.read_text() for log in logs)  # noqa: E731 # one use, one line
    demo.check("the process sees the plugin's variable", said)


def break_device(demo: Demo) -> None:
    title("4. Break a device, and mend it")
    device = demo.held()[0] if demo.held() else "gpu-0"
    demo.run("nodeplane", "chaos", "device", "example.com/gpu", device, "unhealthy")
    demo.check(f"{device} is Unhealthy in the pod's status", lambda: demo.health(device) == "Unhealthy")
    described = lambda: demo.run("kubectl", "describe", "pod", "gpu-pod", quiet=True)  # noqa: E731 # one use, one line
    demo.check("kubectl describe shows an event", lambda: "DeviceUnhealthy" in described())
    demo.run("nodeplane", "chaos", "device", "example.com/gpu", device, "clear")
    demo.check(f"{device} is Healthy again", lambda: demo.health(device) == "Healthy")


def kill_container(demo: Demo) -> None:
    title("5. Kill the container's process")
    before = demo.container().get("restartCount", 0)
    for pid in container_pids(demo):
        os.kill(pid, 9)
    demo.check("it was restarted", lambda: demo.container().get("restartCount", 0) > before and demo.ready())
    last = demo.container().get("lastState", {}).get("terminated", {})
    demo.check("the exit code is in the status", lambda: last.get("exitCode") == 137)


def container_pids(demo: Demo) -> list[int]:
    """The shell of the pod, found by its environment as any user could; planes of others beside this one are let be."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                around, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                ours = str(demo.root).encode() in around_parent(entry)
            except OSError:
                continue
            if b"EXAMPLE_COM_GPU=" in around and b"my devices" in line and ours:
                found.append(int(entry.name))
    return found


def around_parent(entry: Path) -> bytes:
    """The environment of a process' parent."""
    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
    return (Path("/proc") / parent / "environ").read_bytes()


def kill_actors(demo: Demo) -> None:
    title("6. Kill every actor, one after another")
    held = demo.held()
    for actor in ACTORS:
        before = demo.actors().get(actor, {}).get("restarts", 0)
        demo.run("nodeplane", "chaos", "kill", actor)
        demo.check(f"{actor} is back", lambda name=actor, n=before: demo.actors()[name]["restarts"] > n and demo.live())
    demo.check("the pod still runs, on the same devices", lambda: demo.ready() and demo.held() == held)
    demo.run("nodeplane", "status")


def delete(demo: Demo) -> None:
    title("7. Delete the pod")
    demo.run("kubectl", "delete", "pod", "gpu-pod")
    demo.check("it is gone", lambda: not demo.pod())
    demo.check("the watch said DELETED", lambda: "DELETED" in demo.watched())
    print(demo.watched(), end="")


def die(demo: Demo) -> None:
    title("8. A GPU dies")
    file = demo.root / "gpus.txt"
    file.touch()
    demo.stop("plugin.log")
    flags = ("--resource", "example.com/gpu", "--devices", "4", "--health-file", str(file))
    demo.start("nodeplane", "plugin", *flags, log="plugin.log")
    demo.run("kubectl", "apply", "-f", str(HERE / "gpu-pod.yaml"))
    demo.check("the pod is Ready, on two devices", lambda: demo.ready() and len(demo.held()) == 2)
    device = demo.held()[0]
    file.write_text(f"{device} Unhealthy\n")
    place = ".status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health"
    demo.run("kubectl", "wait", "pod/gpu-pod", f"--for=jsonpath={{{place}}}=Unhealthy", "--timeout=20s")
    crash(demo)
    demo.check("in its crash loop the status says why", lambda: demo.health(device) == "Unhealthy")
    demo.stop("plugin.log")
    demo.check("without the plugin nobody knows", lambda: demo.health(device) == "Unknown")
    demo.start("nodeplane", "plugin", *flags, log="plugin.log")
    demo.check("its first list decides", lambda: demo.health(device) == "Unhealthy")


def crash(demo: Demo) -> None:
    """Its process dies until the node waits before it starts it again."""

    def looping() -> bool:
        for pid in container_pids(demo):
            os.kill(pid, 9)
        return bool(demo.container().get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")

    demo.check("the program dies of it, again and again", looping)


def claim(demo: Demo) -> None:
    title("9. The same with DRA")
    file = demo.root / "claims.txt"
    driver = ("--driver", "gpu.example.com", "--devices", "8", "--health-file", str(file))
    demo.start("nodeplane", "dra-driver", *driver, log="driver.log")
    demo.run("kubectl", "apply", "-f", str(HERE / "gpu-claim.yaml"))
    demo.check("the pod runs on a claimed device", lambda: demo.devices("gpu-claim") != {})
    (device,) = demo.devices("gpu-claim")
    file.write_text(f"{device.rpartition('/')[2]} Unhealthy ECC error\n")
    bad = {"health": "Unhealthy", "message": "ECC error", "resourceID": device}
    demo.check("its status says what is wrong", lambda: demo.devices("gpu-claim")[device] == bad)
    warnings = ("kubectl", "events", "--for", "pod/gpu-claim", "--types=Warning")
    demo.check("an event says so", lambda: "ECC error" in demo.run(*warnings, quiet=True))
    demo.run(*warnings)
    demo.run("kubectl", "delete", "pod", "gpu-pod", "gpu-claim")


STEPS = (start, plug, apply, break_device, kill_container, kill_actors, delete, die, claim)


def main() -> int:
    with progress("the demo", total=len(STEPS)) as shown:
        demo = Demo(shown)
        try:
            for step in STEPS:
                step(demo)
                demo.done += 1
        finally:
            demo.close()
    print(f"\n{len(demo.failures)} checks failed" if demo.failures else "\nevery check held")
    for failure in demo.failures:
        print(f"  {failure}")
    return 1 if demo.failures else 0


if __name__ == "__main__":
    sys.exit(main())
