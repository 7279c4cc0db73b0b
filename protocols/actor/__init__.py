"""The shell of every actor process: `run_actor`, and the Context it hands out."""

from protocols.actor.context import Context
from protocols.actor.metrics import PlainCounter
from protocols.actor.shell import run_actor
from protocols.actor.types import Actor

__all__ = ["Actor", "Context", "PlainCounter", "run_actor"]
