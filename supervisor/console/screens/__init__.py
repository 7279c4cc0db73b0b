"""One file per screen, above the widgets that all of them share."""
