"""Headers of answers that we write ourselves."""

Headers = tuple[tuple[str, str], ...]


def written(headers: Headers) -> str:
    """As they are sent. Raises ValueError for one of several lines."""
    told = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if told.count("\n") != len(headers) or told.count("\r") != len(headers):
        raise ValueError("a header with a line break")
    return told
