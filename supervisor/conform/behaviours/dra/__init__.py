"""The behaviours of DRA drivers."""
