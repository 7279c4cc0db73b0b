"""Typed views of JSON objects: `views.Pod`, `views.Container`. Type checkers read them from views.pyi.

At run time each view is what JSON is decoded to, so that annotations with views cost nothing and change nothing.
"""

from typing import Any


def __getattr__(name: str) -> object:
    if not name[:1].isupper():
        raise AttributeError(f"no view is called {name!r}")
    return dict[str, Any]
