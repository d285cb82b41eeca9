"""python -m kvsim.evaluate: what policies cost a running model's predictions of texts.

As an attribute of the package, `kvsim.evaluate` is the function. An import of this module would put
itself in its place.
"""

import sys

from kvsim.closed_loop.cli import main

if __name__ == "kvsim.evaluate":
    raise ImportError("kvsim.evaluate is a function; the command is python -m kvsim.evaluate")
if __name__ == "__main__":
    sys.exit(main())
