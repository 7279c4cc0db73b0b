"""Draw docs/session.svg: play a session on a plane of its own and draw what it printed.

`python -m tests.bench.session_picture` takes half a minute.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

from supervisor.base.terminal import BAD, GOOD, PENDING, STYLES
from tests.support.plane import REPO

PICTURE = REPO / "docs" / "session.svg"
BIN = Path(sys.executable).parent
TITLE = "A session: a pod gets two devices, one is made unhealthy, every process is killed, the pod runs on"
CONTROL = "store watchcache apiserver-0 scheduler controllers"
NODE = "runtime cri pleg devices podworker health frontdoor"
SHOWN_ROOT = "/var/lib/nodeplane"
"""Stands in the picture where the session's own root stood."""
COLUMNS, LINE, TOP = 133, 17, 48
STATE = re.compile(r"(?<=  )[A-Za-z]+(?=  |$)|^[A-Za-z]+(?=  )")
"""A cell that may be a state."""
COLOURS = {GOOD: "#9ece6a", PENDING: "#e0af68", BAD: "#f7768e"}


class Session:
    """Runs commands in a shell and collects the lines of the picture."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="nppic", dir="/tmp"))
        self.lines: list[str] = []
        path = f"{BIN}:{os.environ['PATH']}"
        home = {"HOME": str(self.root), "PATH": path, "KUBECONFIG": str(self.root / "kubeconfig")}
        self._environment = {**os.environ, **home, "NODEPLANE_ROOT": str(self.root)}

    def quiet(self, command: str) -> str:
        shell = ["sh", "-c", command]
        done = subprocess.run(
            shell, cwd=REPO, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout

    def play(self, *commands: str) -> None:
        """Run commands that a user typed as one, and collect what they print."""
        self.lines += [f"{'>' if number else '$'} {command}" for number, command in enumerate(commands)]
        self.lines += self.quiet("\n".join(commands)).replace(str(self.root), SHOWN_ROOT).splitlines()

    def until(self, command: str, word: str) -> None:
        deadline = time.monotonic() + 60
        while word not in self.quiet(command):
            if time.monotonic() > deadline:
                raise SystemExit(f"{command} never printed {word}")
            time.sleep(0.2)

    def plugin(self, command: str) -> "subprocess.Popen[str]":
        self.lines.append(f"$ {command} &")
        process = subprocess.Popen(
            [str(BIN / "nodeplane"), *command.split()[1:]], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        self.lines.append(process.stdout.readline().rstrip())
        return process


def record() -> list[str]:
    """Play the session and return its lines."""
    session = Session()
    session.quiet("nodeplane up --detach --port 0 --metrics-port 0")
    plugin = session.plugin("nodeplane plugin --resource example.com/gpu --devices 4 --numa 2")
    try:
        session.until("nodeplane devices", "gpu-3")
        play(session)
    finally:
        plugin.terminate()
        plugin.wait(20)
        session.quiet("nodeplane down")
        shutil.rmtree(session.root, ignore_errors=True)
    return session.lines


def play(session: Session) -> None:
    session.play("kubectl apply -f examples/gpu-pod.yaml && kubectl wait pod/gpu-pod --for=condition=Ready")
    session.play("nodeplane devices")
    session.play("nodeplane chaos device example.com/gpu gpu-1 unhealthy")
    session.until("kubectl events --for pod/gpu-pod --types=Warning", "DeviceUnhealthy")
    session.play("kubectl events --for pod/gpu-pod --types=Warning")
    session.play(f"for actor in {CONTROL} \\", NODE, "do nodeplane chaos kill $actor; done")
    session.until('nodeplane status -o json | grep -c \'"state": "live"\'', str(len(f"{CONTROL} {NODE}".split())))
    session.until("nodeplane status", "evented")
    session.until("kubectl get nodes", " Ready")
    session.play("nodeplane status")
    session.play("kubectl get pods")


def draw(lines: list[str]) -> str:
    height = TOP + LINE * len(lines) + 8
    width = 1080
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">',
        f"<title>{TITLE}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1a1b26"/>',
        *(
            f'<circle cx="{x}" cy="18" r="5" fill="{colour}"/>'
            for x, colour in ((20, "#f7768e"), (38, "#e0af68"), (56, "#9ece6a"))
        ),
    ]
    texts = [
        f'<text x="16" y="{TOP + LINE * number}" fill="#c0caf5" xml:space="preserve">{spans(line[:COLUMNS])}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join([*head, *texts, "</svg>"]) + "\n"


def spans(line: str) -> str:
    """Return a line with its prompt, command and states in colour."""
    if line[:2] in ("$ ", "> "):
        command = f'<tspan fill="#ffffff" font-weight="bold">{escape(line[2:])}</tspan>'
        return f'<tspan fill="#7aa2f7">{escape(line[:2])}</tspan>{command}'
    return STATE.sub(lambda found: _state(found[0]), escape(line, quote=False))


def _state(word: str) -> str:
    colour = COLOURS.get(STYLES.get(word.lower(), ""))
    return f'<tspan fill="{colour}">{word}</tspan>' if colour else word


if __name__ == "__main__":
    PICTURE.write_text(draw(record()))
