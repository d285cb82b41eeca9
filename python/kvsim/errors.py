"""The base class of all errors of the package."""


class KvsimError(Exception):
    """The message is one line: what is wrong and, where possible, what to do."""
