"""Connections to containers as they travel: the channels of exec and attach, and websockets joined end to end."""
