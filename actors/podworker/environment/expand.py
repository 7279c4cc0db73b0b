"""`$(NAME)` in environment values, commands and arguments. Pure."""

from collections.abc import Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Known names are replaced, unknown references stay as written, `$$` is one dollar sign that starts nothing."""
    out: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        out.append(text[position:dollar])
        piece, position = _reference(text, dollar, variables)
        out.append(piece)
    out.append(text[position:])
    return "".join(out)


def _reference(text: str, dollar: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What the operator at `dollar` stands for, and where reading goes on."""
    following = text[dollar + 1]
    if following == "$":
        return "$", dollar + 2
    end = text.find(")", dollar + 2) if following == "(" else -1
    if end < 0:
        return text[dollar : dollar + 2], dollar + 2
    name = text[dollar + 2 : end]
    return variables.get(name, f"$({name})"), end + 1
