"""Machines on one: network namespaces with an address each, joined to this machine by a bridge of their own."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple


class Network(NamedTuple):
    here: str
    """Address of this machine on the bridge."""
    machines: tuple["Machine", ...]


class Machine(NamedTuple):
    name: str
    address: str

    def within(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one on this machine; its process becomes that of the other."""
        return ["ip", "netns", "exec", self.name, *command]


@contextmanager
def network(machines: int) -> Iterator[Network]:
    """Needs root. Names and addresses are those of this process, so that two of these do not meet."""
    name, subnet = f"np{os.getpid()}", f"10.213.{os.getpid() % 256}"
    made = Network(f"{subnet}.1", tuple(Machine(f"{name}-{at}", f"{subnet}.{10 + at}") for at in range(machines)))
    bridge = name[:15]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{made.here}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, machine in enumerate(made.machines):
            _join(machine, bridge, f"{name}v{number}"[:15])
        yield made
    finally:
        for machine in made.machines:
            subprocess.run(["ip", "netns", "del", machine.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


def _join(machine: Machine, bridge: str, link: str) -> None:
    _ip("netns", "add", machine.name)
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
    _ip("link", "set", link, "master", bridge, "up")
    inside = ("-n", machine.name)
    _ip(*inside, "addr", "add", f"{machine.address}/24", "dev", "eth0")
    for each in ("lo", "eth0"):
        _ip(*inside, "link", "set", each, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=20)
