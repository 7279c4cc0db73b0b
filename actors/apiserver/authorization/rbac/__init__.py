"""Role based access control: objects read, requests judged. No I/O."""
