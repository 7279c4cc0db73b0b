"""Strategies that are imported when their first object is written: a kind that nobody uses costs no memory for them."""

import importlib
from typing import Any, cast

from actors.apiserver.api.strategy import Strategy


class _Deferred:
    """Stand for a strategy. What is set on it, flags and the gate, needs no import."""

    def __init__(self, module: str, name: str, flags: dict[str, Any]) -> None:
        self.__dict__.update(flags)
        self._module, self._name = module, name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        made = self.__dict__.get("_made") or self._load()
        found = self.__dict__[attribute] = getattr(made, attribute)
        return found

    def _load(self) -> Strategy:
        made: Strategy = getattr(importlib.import_module(self._module), self._name)()
        if gate := self.__dict__.get("gate"):
            made.gate = gate
        self.__dict__["_made"] = made
        return made


def deferred(module: str, name: str, **flags: Any) -> Strategy:
    """Return the strategy `name` of `module`. `flags` are those attributes that differ from Strategy's.

    Attributes that reads and discovery need must be among them, or the first read imports the module.
    """
    defaults = {"has_status": False, "has_generation": False, "parts": (), "propagation": "", "unasked_warning": ""}
    return cast(Strategy, _Deferred(module, name, {**defaults, **flags}))
