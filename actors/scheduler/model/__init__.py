"""Shared by the parts of the scheduler: views of objects, demands, the queue, nominations. Pure."""
