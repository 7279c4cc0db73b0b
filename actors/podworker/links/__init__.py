"""The world as it is: other actors on the bus, the runtime, the API."""
