"""What the main README shows of Python works."""

import re

from conftest import HERE

ROOT = HERE.parents[1]


def test_the_python_of_the_readme_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        shown = {}
        exec(block, shown)
        assert set(shown["rows"].policy.str.split(":").str[0]) == {"h2o", "recent", "optimal"}
