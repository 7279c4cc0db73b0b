"""The console over a recording: the world at a time, and a slider to choose it."""
