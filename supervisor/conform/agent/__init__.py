"""The played node of an agent: the server of the pod resources API."""
