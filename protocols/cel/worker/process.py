"""Give an actor a worker for its expressions: from its start on it never evaluates one itself."""

from collections.abc import Callable
from typing import TypeVar

from protocols.actor import Context
from protocols.cel.worker.client import use_worker
from protocols.cel.worker.selections import use_selections

A = TypeVar("A")


def with_worker(factory: Callable[[Context], A]) -> Callable[[Context], A]:
    """Return a factory of the same actor that asks the worker of its instance."""

    def made(context: Context) -> A:
        use_selections(use_worker(context.bus, context.instance, context.need_worker))
        return factory(context)

    return made
