"""Vocabulary of the device manager: types, errors, metrics and kubelet's checksums."""
