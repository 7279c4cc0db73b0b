"""State directory, lifecycle transitions, and the container events that report them."""
