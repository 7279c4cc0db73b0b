"""The behaviours of DRA drivers, a script each."""
