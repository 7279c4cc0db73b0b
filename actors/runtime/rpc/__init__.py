"""CRI's methods, grouped as the interface groups them: requests in, answers out, no rules of their own."""
