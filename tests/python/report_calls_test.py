"""Whichever call fails while a report is drawn anew, all of it is the earlier or the later one."""

from comparison_test import LONG
from conftest import ResultFile
from failing_calls import run

# Three figures whose files are texts in place of pictures: what may fail is their way to the disk.
SCRIPT = """
import os, shutil, signal, sys
from pathlib import Path
from failing_calls import each_end
from kvsim.report import page, pictures
from kvsim.report.numbers.choice import Choice
from kvsim.report.figures import Drawing, Missing
from kvsim.report.numbers.frames import Comparison
from kvsim.results import load

os.environ["SOURCE_DATE_EPOCH"] = "0"  # which the page shows
files = Path(sys.argv[1])
all_plans = page.plans
report, aside = files / "report", files.parent / "earlier"

def planned(name, is_missing):
    comparison = Comparison(load(files.parent / name), Choice())
    plans = [plan for plan in all_plans(comparison) if isinstance(plan, Drawing)][:3]
    if is_missing:
        plans[2] = Missing(plans[2].name, plans[2].title, "", "")
    return comparison, plans

def render(drawing, theme, shape, endings):
    names = (f"{drawing.alt} {theme.name} {shape.name} {ending} " for ending in endings)
    return [500 * name.encode() for name in names]

pictures.render = render
page.get_plotlyjs = lambda: "a library"  # that of plotly takes longer to write than all else

def write(comparison, plans):
    page.plans = lambda _: plans
    page.write_report(comparison, report)

def contents():  # without what could not be removed, which the next process removes
    files = [file for file in report.rglob("*") if ".partial-" not in str(file)]
    return {file: file.read_bytes() for file in files if file.is_file()}

earlier, later = planned("earlier.sqlite", False), planned("later.sqlite", True)
write(*later)
after = contents()
shutil.rmtree(report)
write(*earlier)
before = contents()
assert len(after) < len(before)
shutil.copytree(report, aside)
ends = 0
for at, status in each_end(lambda: write(*later)):
    found = contents()
    assert status != -signal.SIGALRM, at
    if status in (0, 1):
        assert found == (before if status else after), (at, status)
    shutil.rmtree(report)
    shutil.copytree(aside, report)
    ends += 1
print(ends)
"""


def test_whichever_call_fails_a_report_is_the_earlier_one_or_the_later(tmp_path):
    ResultFile(tmp_path / "earlier.sqlite").sweep(["full", "window", LONG])
    ResultFile(tmp_path / "later.sqlite").sweep(["full", "window"])
    run(SCRIPT, tmp_path, {"write": 7, "sync": 1, "rename": 1, "open": 7, "memory": 12001})
