"""What answers a request once it is known who asks, and for what."""
