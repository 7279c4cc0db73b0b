"""What tests share: a whole plane in a short-lived root, watchers that count, and an oracle that judges."""
