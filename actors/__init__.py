"""One folder per actor. No actor imports another: all that two share is a message or a wire format in protocols/."""
