"""Where compiled code is kept on disk: see `compilation_cache` in here."""
