"""Sweeps whose units other processes replay: any executor with `submit`."""

from .run import run_parts

__all__ = ["run_parts"]
