"""Programs by their text: each is compiled once while it is in use. What does not compile is remembered as well."""

import threading
from collections import OrderedDict

from protocols.cel.errors import CompileError
from protocols.cel.limits import check_length
from protocols.cel.program import Program, compile_program

SIZE = 1024


class Programs:
    """The least recently used goes first. Safe for threads; holds no results, for tenants share it."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Program | CompileError] = OrderedDict()

    def compiled(self, source: str) -> Program:
        """Raises CompileError."""
        check_length(source)
        with self._lock:
            found = self._known.get(source)
            if found is None:
                found = self._known[source] = _outcome(source)
                if len(self._known) > self._size:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(source)
        if isinstance(found, CompileError):
            raise type(found)(*found.args)
        return found


def _outcome(source: str) -> Program | CompileError:
    try:
        return compile_program(source)
    except CompileError as error:
        return error.with_traceback(None)


_shared = Programs()
compiled = _shared.compiled
"""The program of a text, shared by the whole process; raises CompileError."""
