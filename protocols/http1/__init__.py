"""A client of HTTP/1.1 for the API: responses, connections, and a pool of them."""
