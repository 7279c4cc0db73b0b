"""Services, endpoints and the addresses of both."""
