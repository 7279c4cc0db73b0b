"""Informer handlers and kinds shared by all controllers."""
