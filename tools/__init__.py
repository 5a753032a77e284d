"""Scripts for the project itself: setting up, the map of files."""
