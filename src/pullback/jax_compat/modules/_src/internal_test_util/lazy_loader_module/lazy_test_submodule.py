"""A module that is imported late."""


def a_function() -> int:
    """Is there, once the module is."""
    return 42
