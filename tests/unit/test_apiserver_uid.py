"""Uids are random UUIDs of version 4."""

import uuid

from actors.apiserver.api.uid import new_uid


def test_they_are_uuids_of_version_4_and_never_the_same() -> None:
    made = [new_uid() for _ in range(200)]
    assert len(set(made)) == 200
    for text in made:
        known = uuid.UUID(text)
        assert (str(known), known.version, known.variant) == (text, 4, uuid.RFC_4122)
