"""Watches: joining without a gap, events, bookmarks, and the end of a stream."""
