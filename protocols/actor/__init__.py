"""The shell of every actor process: `run_actor`, and the Context it hands out."""

from protocols.actor.context import Actor, Context
from protocols.actor.metrics import PlainCounter
from protocols.actor.shell import run_actor

__all__ = ["Actor", "Context", "PlainCounter", "run_actor"]
