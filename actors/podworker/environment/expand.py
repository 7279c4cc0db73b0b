"""`$(NAME)` in environment values, commands and arguments. Pure."""

from collections.abc import Mapping

from actors.podworker.errors import ContainerConfigInvalid

MAX_ENVIRONMENT = 8 << 20
"""Characters of a container's variables, and of its command. Linux executes nothing above 6 MiB."""


class Budget:
    """Characters that one container may still add. References to references grow exponentially without a bound."""

    def __init__(self, most: int = MAX_ENVIRONMENT) -> None:
        self._left = self._most = most

    def spend(self, characters: int) -> None:
        """Raises ContainerConfigInvalid when more was added than fits."""
        self._left -= characters
        if self._left < 0:
            raise ContainerConfigInvalid(
                f"its values have more than {self._most} characters together; use fewer or smaller ones"
            )


def expand(text: str, variables: Mapping[str, str], budget: Budget | None = None) -> str:
    """Return `text` with known names replaced.

    Unknown references stay as written, `$$` is one dollar sign that starts nothing. Raises ContainerConfigInvalid once
    the result exceeds the budget, which is one of its own if there is none.
    """
    budget = budget or Budget()
    out: list[str] = []
    position, last = 0, text.rfind(")")
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        piece, following = _reference(text, dollar, last, variables)
        budget.spend(dollar - position + len(piece))
        out += (text[position:dollar], piece)
        position = following
    budget.spend(len(text) - position)
    out.append(text[position:])
    return "".join(out)


def _reference(text: str, dollar: int, last: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What the operator at `dollar` stands for, and where reading goes on. `last`: the last parenthesis, so that
    references that are never closed do not each search the rest of the text."""
    following = text[dollar + 1]
    if following == "$":
        return "$", dollar + 2
    end = text.find(")", dollar + 2) if following == "(" and last >= dollar + 2 else -1
    if end < 0:
        return text[dollar : dollar + 2], dollar + 2
    name = text[dollar + 2 : end]
    return variables.get(name, f"$({name})"), end + 1
