"""Replace attributes and objects of loaded modules; never undone, since a process runs one seed."""

import sys
from typing import Any


def patch(owner: Any, name: str, new: Any) -> Any:
    """Set an attribute of a module or a class and return what it was. Raises AttributeError if there is none."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return old


def substitute(old: object, new: object) -> None:
    """Bind a new object to each name of a loaded module that the old one has."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            for name, value in list(names.items()):
                if value is old:
                    names[name] = new
