"""What a writer takes for known."""

from types import SimpleNamespace
from typing import Any

from protocols.etcd.options import EtcdOptions
from tests.simulation.control.writers import Held, Pace, Writer
from tests.simulation.world.world import START


def test_a_key_known_before_a_restore_is_read_again() -> None:
    history: Any = SimpleNamespace(restored_at=float("-inf"))
    writer = Writer("writer", EtcdOptions(endpoints=("etcd",)), b"/", history, Pace(1.0, 0.0, 0.0))
    writer._known[b"/key"] = Held(b"value", 7), START + 10.0
    assert writer._knows(b"/key")
    assert not writer._knows(b"/other")
    history.restored_at = 11.0
    assert not writer._knows(b"/key")
