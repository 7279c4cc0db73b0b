"""What is played for an agent: the server of the pod resources API."""
