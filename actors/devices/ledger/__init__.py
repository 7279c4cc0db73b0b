"""Who holds which device (ledger), the events that led there (history), and both on disk before anybody is told."""
