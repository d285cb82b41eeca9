"""What learned eviction policies train on: oracle/labels/README.md says what each label is."""

from .run import labels

__all__ = ["labels"]
