"""The table of results: python build.py writes its pages; python build.py --help has the rest."""

import sys

from results_table.command import main

if __name__ == "__main__":
    sys.exit(main())
