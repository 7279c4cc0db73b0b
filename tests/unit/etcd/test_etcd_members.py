"""Which member of a cluster is used: one until somebody blames it, then the next; found soon, given up in time."""

import asyncio
from typing import Any

import pytest

from protocols.etcd.client import ask
from protocols.etcd.errors import BadEndpoint, Compacted, Unavailable
from protocols.etcd.members import Members, Method, open_channel
from protocols.etcd.options import EtcdOptions
from protocols.etcd.transport.connection_channel import LOST
from protocols.kubeclient.election import identity
from protocols.wire import etcd_pb2 as pb
from protocols.wire.methods import rpc_error
from tests.support.store_lab import short_directory


class Channel:
    """Lets us connect at this try (0 = never); the tries before it fail at once, or hang."""

    def __init__(self, at: int = 0, hangs: bool = False) -> None:
        self._at, self._hangs = at, hangs
        self._tries = 0

    def unary_unary(self, *_: Any, **__: Any) -> Any:
        """Its calls do not connect, as those to one of several members."""

        async def call(request: Any, timeout: float, wait_for_ready: bool) -> pb.StatusResponse:
            if not (wait_for_ready or self._tries):
                raise rpc_error("UNAVAILABLE", LOST)
            return pb.StatusResponse(version="3.5.21")

        return call

    async def stands(self, patience: float) -> bool:
        self._tries += 1
        if self._at and self._tries >= self._at:
            return True
        if self._hangs:
            await asyncio.sleep(patience)
        return False


def members(*channels: Channel) -> Members:
    made = Members(EtcdOptions(endpoints=tuple(f"m{number}:1" for number in range(len(channels)))))
    made.channels = list(channels)  # type: ignore[arg-type] # these stand for ours
    made.current = 0
    return made


async def test_a_member_is_kept_until_it_is_blamed() -> None:
    all_ = members(Channel(1), Channel(1), Channel(1))
    assert (await all_.connected(1.0)) == 0
    all_.blame(2)
    assert all_.current == 0, "another one's fault is not its own"
    all_.blame(0)
    all_.blame(0)
    assert all_.current == 1, "many calls that fail together move on once"
    assert isinstance(all_.blamed(1, Compacted("old", 1)), Compacted)
    assert all_.current == 1, "a member that answers is at no fault"
    assert isinstance(all_.blamed(1, Unavailable("gone")), Unavailable)
    assert (await all_.connected(1.0)) == 2


async def test_one_that_refuses_is_passed_over_and_one_that_connects_is_waited_for() -> None:
    assert (await members(Channel(), Channel(1)).connected(1.0)) == 1
    assert (await members(Channel(), Channel(3)).connected(10.0)) == 1


async def test_no_reachable_member_is_an_error_that_names_all() -> None:
    dead = [Channel(), Channel(hangs=True)]
    with pytest.raises(Unavailable, match=r"m0:1, m1:1\); see that they run, and give a CA"):
        await members(*dead).connected(0.2)


async def test_the_only_member_is_not_asked() -> None:
    assert (await members(Channel()).connected(0.0)) == 0


async def test_a_member_that_nobody_has_called_yet_is_connected_to_be_asked() -> None:
    method = Method(members(Channel(1), Channel(1)), "Maintenance/Status", pb.StatusResponse)
    assert (await ask(method, 1, pb.StatusRequest(), 1.0)).version == "3.5.21"


def test_no_member_is_no_cluster() -> None:
    with pytest.raises(BadEndpoint):
        Members(EtcdOptions(endpoints=()))


@pytest.mark.parametrize("endpoint", ["host", "host:", ":2379", "host:²", "host:123456"])
def test_a_member_without_a_port_is_refused(endpoint: str) -> None:
    with pytest.raises(BadEndpoint, match="is not host:port"):
        open_channel(endpoint, EtcdOptions(endpoints=(endpoint,)), None)


def test_a_candidate_keeps_its_name_on_its_machine() -> None:
    with short_directory() as directory:
        path = directory / "scheduler.id"
        first = identity(path)
        assert identity(path) == first
        path.write_text("elsewhere_1234\n")
        assert identity(path) not in (first, "elsewhere_1234")
