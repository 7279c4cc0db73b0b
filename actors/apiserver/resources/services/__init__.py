"""Services: defaults, rules, IP families, and the addresses and ports they hold."""
