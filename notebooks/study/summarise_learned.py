"""Writes the table of what is learned: python summarise_learned.py FOLDER

FOLDER has learned.sqlite, as `run` leaves it.
"""

import re
import sys
from pathlib import Path

from summarise_bytes import KEY, OF_MODEL

import kvsim

TABLE = Path(__file__).with_name("tables") / "learned.csv"


def without_folder(policy):
    """A spec whose files are named without their folders and hashes, which are of one run alone."""
    return re.sub(r"file=(?:[^,]*/)?([^,/]*),sha256=[^,]*", r"file=\1", policy)


def main():
    rows = kvsim.load(Path(sys.argv[1]) / "learned.sqlite").closed_loop
    rows = rows.assign(policy=rows["policy"].map(without_folder)).sort_values(KEY)
    rows[[*KEY, "budget", *OF_MODEL]].to_csv(TABLE, index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
