"""The places that name the version agree, and a release is refused where they do not."""

import re
import shutil
import subprocess

import pytest

import kvsim
from conftest import HERE

ROOT = HERE.parents[1]
PLACES = {
    "CMakeLists.txt": r"^project\(kvsim VERSION ([\d.]+)",
    "python/kvsim/__init__.py": r'^__version__ = "([\d.]+)"$',
    "CITATION.cff": r"^version: ([\d.]+)$",
    "CHANGELOG.md": r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$",
}


def test_all_places_name_one_version():
    found = {
        place: re.search(pattern, (ROOT / place).read_text(), re.MULTILINE)[1]
        for place, pattern in PLACES.items()
    }
    assert set(found.values()) == {kvsim.__version__}, found


@pytest.fixture
def checkout(tmp_path):
    for place in [*PLACES, ".ci/release"]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    commit(tmp_path)
    return tmp_path


def commit(folder):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def check(folder):
    return subprocess.run(
        [folder / ".ci" / "release", "--check"], capture_output=True, text=True
    )  # fmt: skip


def test_a_clean_tree_with_one_version_can_be_released(checkout):
    done = check(checkout)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Version {kvsim.__version__} can be released.\n"


@pytest.mark.parametrize("place", list(PLACES)[1:])
def test_a_place_with_another_version_is_named(place, checkout):
    text = (checkout / place).read_text().replace(kvsim.__version__, "9.9.9")
    (checkout / place).write_text(text)
    commit(checkout)
    done = check(checkout)
    assert done.returncode == 1 and done.stderr.startswith(f"release: {place}: expected version")


def test_changes_and_an_existing_tag_are_refused(checkout):
    (checkout / "new.txt").touch()
    assert "the tree has changes" in check(checkout).stderr
    (checkout / "new.txt").unlink()
    subprocess.run(["git", "tag", f"v{kvsim.__version__}"], cwd=checkout, check=True)
    assert "exists: a release is made once" in check(checkout).stderr
