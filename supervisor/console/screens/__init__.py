"""One file per screen, above the frame and the widgets that all of them share."""
