"""The installed package runs on a machine with nothing but Python and the C library."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import kvsim
from conftest import HERE, SAMPLE
from kvsim import _engine

ROOT = HERE.parents[1]
WHEEL = os.environ.get("KVSIM_WHEEL")
needs_wheel = pytest.mark.skipif(not WHEEL, reason="KVSIM_WHEEL names no wheel; see make package")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide libraries")
SWEEP = "--layers 0 --heads 0 --policies window;h2o --budgets 20% --threads 2 -o r.sqlite".split()
IN_PROCESS = f"""
import kvsim
rows = kvsim.sweep(kvsim.Trace('{SAMPLE}'), ['window', 'h2o'], ['20%'], layers='0', threads=2)
print(*sorted(rows.policy.unique()))
"""

C_LIBRARY = r"(libc|libm|libdl|libpthread|librt|ld-linux\S*|ld64)\.so\.\d+"
# What programs are made of, in the names of Debian. Not SQLite and zlib: Python has modules
# that need them.
HIDDEN = (
    "hdf5 deflate boost_program_options SQLiteCpp fmt yaml-cpp crypto ssl curl sz aec gomp".split()
)


def output_of(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed_programs():
    """The program, the module and the library next to it, as they are installed."""
    files = [file.locate() for file in importlib.metadata.distribution("kvsim").files]
    files = [Path(file).resolve() for file in files if Path(file).is_file()]
    return [file for file in files if file.read_bytes()[:4] == b"\x7fELF"]


def installed_program():
    (program,) = [file for file in installed_programs() if file.name == "kvsim"]
    return program


def test_the_package_needs_nothing_but_the_c_library():
    found = {file.name.split(".")[0]: file for file in installed_programs()}
    assert sorted(found) == ["_engine", "kvsim", "libgomp"]
    allowed = {"kvsim": C_LIBRARY, "libgomp": C_LIBRARY, "_engine": rf"{C_LIBRARY}|libgomp\.so\.1"}
    for name, file in found.items():
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", file))
        assert [entry for entry in needed if not re.fullmatch(allowed[name], entry)] == [], file


@pytest.mark.skipif(platform.libc_ver()[1] != "2.36", reason="another libc than that of Debian 12")
def test_the_package_runs_with_the_c_library_of_red_hat_9():
    """Built on Debian 12, whose archives ask for 2.35 and 2.36; see python/engine/older_libc.c."""
    for file in installed_programs():
        asked = re.findall(r"GLIBC_2\.(\d+)", output_of("readelf", "--version-info", file))
        assert max(int(minor) for minor in asked) <= 34, file


def test_the_module_shows_no_symbol_of_the_libraries_in_it():
    (module,) = [file for file in installed_programs() if file.name.startswith("_engine")]
    table = output_of("readelf", "--dyn-syms", "--wide", module)
    rows = [line.split() for line in table.splitlines() if line.strip()[:1].isdigit()]
    shown = {row[-1] for row in rows if len(row) > 7 and "UND" not in row}
    of_templates = r"_Z(Z|T[ISV])?N?(St|8nanobind)"
    assert [name for name in shown if not re.match(of_templates, name)] == ["PyInit__engine"]


@needs_root
def test_the_program_runs_where_nothing_is_installed(tmp_path):
    for file in re.findall(r"/\S+", output_of("ldd", installed_program())):
        place = tmp_path / file[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    shutil.copy(installed_program(), tmp_path)
    shutil.copy(SAMPLE, tmp_path)
    assert "h2o" in output_of("chroot", tmp_path, "/kvsim", "sweep", SAMPLE.name, *SWEEP)


@needs_root
def test_the_package_is_imported_where_the_libraries_are_hidden(tmp_path):
    found = [f for name in HIDDEN for f in Path("/usr/lib").glob(f"*-linux-gnu/lib{name}*.so*")]
    hidden = {str(file.resolve()) for file in found}
    mounts = "".join(f"mount --bind /dev/null '{file}'; " for file in sorted(hidden))
    script = f"set -e; mount --make-rprivate /; {mounts}exec '{sys.executable}' -c \"{IN_PROCESS}\""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine hides no files: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("h2o")


def test_program_module_and_package_have_one_version():
    assert importlib.metadata.version("kvsim") == kvsim.__version__
    assert output_of(installed_program(), "--version").split()[1] == _engine.version()
    assert re.fullmatch(rf"{kvsim.__version__}(\+g[0-9a-f]+(\.dirty)?)?", _engine.version())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the sources have no revision")
def test_the_version_names_the_revision_of_the_checkout():
    revision = output_of("git", "rev-parse", "--short=7", "HEAD", cwd=ROOT).strip()
    assert _engine.version().removesuffix(".dirty") == f"{kvsim.__version__}+g{revision}"


@pytest.mark.parametrize("order", ["torch, kvsim._engine", "kvsim._engine, torch"])
def test_torch_and_the_module_compute_in_parallel_in_one_process(order):
    pytest.importorskip("torch")
    product = "print((torch.ones(512, 512) @ torch.ones(512, 512)).sum().item())"
    code = f"import {order}\n{product}\n{IN_PROCESS}\n{product}"
    done = output_of(sys.executable, "-c", code, env=os.environ | {"OMP_NUM_THREADS": "2"})
    first, policies, second = done.splitlines()
    assert first == second == "134217728.0" and policies.startswith("h2o")


@needs_wheel
def test_the_wheel_brings_all_that_it_needs(tmp_path):
    """In a new environment. The report is drawn by the Python next to the program."""
    output_of(sys.executable, "-m", "venv", tmp_path / "venv")
    scripts = tmp_path / "venv" / "bin"
    output_of(scripts / "pip", "install", "--quiet", "--no-compile", ROOT / WHEEL)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    run = dict(cwd=tmp_path, env=environment)
    assert output_of(scripts / "kvsim", "--version", **run).split()[1] == _engine.version()
    output_of(scripts / "kvsim", "sweep", SAMPLE, *SWEEP, **run)
    assert output_of(scripts / "python", "-c", IN_PROCESS, **run).startswith("h2o")
    code = "import kvsim; print(kvsim.run('--version'))"
    assert output_of(scripts / "python", "-c", code, **run).split()[1] == _engine.version()
    output_of(scripts / "kvsim", "report", "r.sqlite", "-o", "page", "--quiet", **run)
    assert (tmp_path / "page" / "index.html").is_file()


@needs_wheel
def test_the_wheel_is_small_enough_to_publish():
    """An algorithm of OpenSSL that is looked up by name brings all of them, some 1.6 MB each."""
    assert (ROOT / WHEEL).stat().st_size < 13e6


@pytest.fixture
def source_archive():
    (archive,) = (ROOT / WHEEL).parent.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        yield sources


@needs_wheel
def test_the_source_archive_keeps_the_revision(source_archive):
    (name,) = [name for name in source_archive.getnames() if name.endswith("/version.txt")]
    assert source_archive.extractfile(name).read().decode().strip() == _engine.version()


@needs_wheel
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="nothing says which files are sources")
def test_the_source_archive_has_every_file_that_is_compiled(source_archive):
    rooms = "CMakeLists.txt pyproject.toml analysis gpu oracle policies python sim traces".split()
    tracked = output_of("git", "ls-files", "--", *rooms, cwd=ROOT).splitlines()
    packed = {name.partition("/")[2] for name in source_archive.getnames()}
    assert len(tracked) > 500 and [name for name in tracked if name not in packed] == []
