"""State of modules and logs of simulated processes."""

import logging
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.simulation.world.install import _Logs
from tests.simulation.world.isolation import Isolation, nothing


class _Holder:
    value = 1


def test_each_process_finds_its_own_values_in_modules_and_classes() -> None:
    module = ModuleType("module")
    module.value = 1  # type: ignore[attr-defined]
    isolation, first, second = Isolation(), list[object](), list[object]()
    for owner in (module, _Holder):
        isolation.add(owner, "value", lambda: 1)
    for memory, value in ((first, 2), (second, 3)):
        isolation.enter(memory)
        module.value = _Holder.value = value  # type: ignore[attr-defined]
    isolation.enter(first)
    assert (module.value, _Holder.value) == (2, 2)
    isolation.enter(second)
    assert (module.value, _Holder.value) == (3, 3)


def test_a_place_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError, match="renamed"):
        Isolation().add(_Holder, "renamed", nothing)


@pytest.mark.parametrize("alive", [True, False])
def test_a_process_logs_while_it_is_alive(alive: bool) -> None:
    texts: list[str] = []
    process = SimpleNamespace(name="store", alive=alive)
    world: Any = SimpleNamespace(current=process, logged=lambda name, level, text: texts.append(text))
    _Logs(world).emit(logging.makeLogRecord({"msg": "checkpoint failed", "levelno": logging.ERROR}))
    assert texts == ["checkpoint failed"] * alive
