"""The operations of CRI on sandboxes and containers, whichever backend runs them."""
