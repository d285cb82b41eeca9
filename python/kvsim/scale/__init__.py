"""What a sweep would reach on many workers: a small model of the schedule."""

from .run import scale

__all__ = ["scale"]
