"""The scheduling cycle, the binding cycle, and what follows a failed attempt."""
