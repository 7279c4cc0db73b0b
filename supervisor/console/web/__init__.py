"""The console in a browser: a server on loopback that runs one console process per connection."""
