"""Plugins that put a socket into plugins_registry/ and wait to be asked what they are."""
