"""What all errors of the package have in common."""


class KvsimError(Exception):
    """The message is one line that says what is wrong and, where there is a way, what to do."""
