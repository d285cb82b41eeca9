"""Small result files, written with sqlite3 as the program writes them, and a small trace.

What only the program can tell is tested where the environment variable KVSIM_PROGRAM names it.
"""

import itertools
import os
import re
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kvsim
from declared_packages import install  # noqa: F401, a fixture
from nightly import taken_by_day

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "traces" / "sample" / "tiny-llama.h5"
H2O = "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy"
OPTIMAL = "optimal:recent=0,cost=mass,weight=uniform"
POLICIES = ["full", H2O, OPTIMAL, "tova:scope=head,score=cached", "topk:h2=0", "window"]
TOKENS = 40
PROGRAM = os.environ.get("KVSIM_PROGRAM")
needs_program = pytest.mark.skipif(not PROGRAM, reason="KVSIM_PROGRAM does not name the program")

# Recall at the smallest budget; each doubling adds a tenth.
_KL = {"full": 0.0, "topk": 0.02, "optimal": 0.03, "h2o": 0.05, "tova": 0.06, "window": 0.08}
_RECALL = {"full": 1.0, "topk": 0.7, "optimal": 0.6, "tova": 0.5, "h2o": 0.45, "window": 0.4}
CLOSED_LOOP = """CREATE TABLE IF NOT EXISTS closed_loop (model_id TEXT NOT NULL,
sequence TEXT NOT NULL, policy TEXT NOT NULL, budget INTEGER NOT NULL, mode TEXT NOT NULL,
loop TEXT NOT NULL, seed INTEGER NOT NULL, trace_id TEXT, text_id TEXT, model TEXT,
budget_request TEXT, label TEXT, steps INTEGER, nll_full REAL, nll REAL, delta_nll REAL,
kl_mean REAL, top1_agreement REAL, answers INTEGER, answers_right_full INTEGER,
answers_right INTEGER, kept_overlap REAL, peak_tokens INTEGER, cache_bytes INTEGER,
prompt_length INTEGER, spans_id TEXT, device TEXT,
kvsim_version TEXT, policy_code TEXT, run_id TEXT,
PRIMARY KEY (model_id, sequence, policy, budget, mode, loop, seed)) WITHOUT ROWID"""

CLUSTERS = """CREATE TABLE IF NOT EXISTS clusters (trace_id TEXT NOT NULL,
sequence TEXT NOT NULL, layer INTEGER NOT NULL, query_head INTEGER NOT NULL, of TEXT NOT NULL,
k INTEGER NOT NULL, kv_head INTEGER, radius REAL, relative_radius REAL, trace TEXT,
kvsim_version TEXT, PRIMARY KEY (trace_id, sequence, layer, query_head, of, k)) WITHOUT ROWID"""

LAYER_ERROR = """CREATE TABLE IF NOT EXISTS layer_error (trace_id TEXT NOT NULL,
sequence TEXT NOT NULL, layer INTEGER NOT NULL, policy TEXT NOT NULL, budget INTEGER NOT NULL,
mode TEXT NOT NULL, seed INTEGER NOT NULL, steps INTEGER, projected_error REAL,
projected_error_relative REAL, predicted_kl REAL, num_layers INTEGER, trace TEXT,
budget_request TEXT, device TEXT, kvsim_version TEXT, policy_code TEXT, run_id TEXT,
PRIMARY KEY (trace_id, sequence, layer, policy, budget, mode, seed)) WITHOUT ROWID"""


def pytest_configure(config):
    config.addinivalue_line("markers", "a_third_by_day: a third of the parameters, by night all")


def pytest_collection_modifyitems(config, items):
    taken = taken_by_day(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = taken


class ResultFile:
    """A result file in the making."""

    def __init__(self, path):
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA synchronous = OFF")  # a crash may lose a test's file
        self.connection.executescript((HERE / "schema.sql").read_text())

    def add(self, table, **values):
        columns = [row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")]
        places = ", ".join("?" * len(columns))
        row = [values.get(column) for column in columns]
        self.connection.execute(f"INSERT INTO {table} VALUES ({places})", row)
        self.connection.commit()

    def drop(self, *tables):
        for table in tables:
            kind = "VIEW" if table == "regret" else "TABLE"
            self.connection.execute(f"DROP {kind} {table}")
        self.connection.commit()

    def replay(self, policy, budget, layer=0, kv_head=0, **values):
        name = re.split("[:+@]", policy)[0]
        recall = _RECALL.get(name, 0.42) + (0 if name == "full" else 0.1 * (budget > 4))
        recall = recall if name == "full" else recall + 0.02 * layer - 0.03 * kv_head
        held = TOKENS if name in ("full", "topk") else budget
        row = {
            "trace_id": "a" * 64, "sequence": "one", "layer": layer, "kv_head": kv_head,
            "policy": policy, "budget": budget, "mode": "stream", "seed": 0, "trace": "trace.h5",
            "budget_request": f"{100 * budget // TOKENS}%", "steps": TOKENS,
            "attention_recall": recall, "attention_loss": 1 - recall, "miss_rate": 1 - recall,
            "token_accesses": 100, "token_misses": round(100 * (1 - recall)),
            "output_error_mean": 0.8 * (1 - recall), "output_error_p50": 0.7 * (1 - recall),
            "output_error_p95": 1 - recall, "output_error_max": 1.2, "bound_mean": 3 * (1 - recall),
            "bound_violations": 0, "evictions": TOKENS - held, "peak_tokens": held,
            "cache_bytes": 64 * held, "device": "cpu", "kvsim_version": "0.1.0",
            "ties": 0, "policy_code": "0123456789abcdef", "run_id": "20260101T000000Z-00000000",
        }  # fmt: skip
        self.add("replay", **{**row, **values})

    def sweep(self, policies=POLICIES, budgets=(4, 8), layers=2, kv_heads=2, **values):
        for policy in policies:
            for budget in budgets:
                for layer in range(layers):
                    for kv_head in range(kv_heads):
                        self.replay(policy, budget, layer, kv_head, **values)
        return self

    def with_errors(self, policies, budget=4, layers=2, kv_heads=2, predicted_kl=True, **values):
        """Rows with absolute errors. `policies`: the projected error of a layer, by policy."""
        there = {row[1] for row in self.connection.execute("PRAGMA table_info(replay)")}
        for name in {"output_error_sq", "predicted_kl"} - there:
            self.connection.execute(f"ALTER TABLE replay ADD COLUMN {name} REAL")
        self.connection.execute(LAYER_ERROR)
        for policy, error in policies.items():
            for layer in range(layers):
                nats = 0.01 * error * (1 + layer) if predicted_kl else None
                measured = {"output_error_sq": 0.1 * error, "predicted_kl": nats, **values}
                for kv_head in range(kv_heads):
                    self.replay(policy, budget, layer, kv_head, **measured)
                key = {"trace_id": "a" * 64, "sequence": "one", "mode": "stream", "seed": 0}
                row = {name: value for name, value in values.items() if name in key}
                self.add(
                    "layer_error", **key | row, layer=layer, policy=policy, budget=budget,
                    projected_error=error * (1 + 0.1 * layer), num_layers=layers, steps=TOKENS,
                    predicted_kl=nats * kv_heads if predicted_kl else None, trace="trace.h5",
                    budget_request=f"{100 * budget // TOKENS}%",
                )  # fmt: skip
        return self

    def analyses(self):
        for layer in range(2):
            for query_head in range(4):
                key = {"trace_id": "a" * 64, "sequence": "one", "layer": layer}
                key.update(query_head=query_head, kv_head=query_head // 2, trace="trace.h5")
                self.add("persistence", **key, split=20, threshold="1/t", pivotal_share=0.5,
                         persistence_ratio=0.9 - 0.1 * layer)  # fmt: skip
                self.add("sparsity", **key, threshold=0.01, sparsity=0.6 + 0.1 * layer, entries=820)
        return self

    def clusters(self):
        """Two layers, four query heads on two KV heads; keys are closer together than values."""
        self.connection.execute(CLUSTERS)
        for layer in range(2):
            for query_head in range(4):
                key = {"trace_id": "a" * 64, "sequence": "one", "layer": layer}
                key.update(query_head=query_head, kv_head=query_head // 2, trace="trace.h5")
                for of, least in (("key", 0.4), ("value", 0.7)):
                    for k in (1, 2, 4, 8, 16, 32):
                        relative = 1 if k == 1 else least * 16 / max(k, 16)
                        self.add("clusters", **key, of=of, k=k, relative_radius=relative, radius=1)
        return self

    def evictions(self, policy=H2O, budget=8, layers=1, query_heads=4, mode="stream"):
        """The oldest token leaves after each step above the budget."""
        for layer in range(layers):
            for query_head in range(query_heads):
                for token in range(TOKENS - budget):
                    self.add(
                        "evictions", trace_id="a" * 64, sequence="one", layer=layer,
                        query_head=query_head, policy=policy, budget=budget, mode=mode, seed=0,
                        token=token, kv_head=query_head // 2, evicted_after=token + budget,
                        age=budget, received=1.0, future_mass=0.1, regret=0.05, trace="trace.h5",
                    )  # fmt: skip
        return self

    def closed_loop(self, policies=POLICIES, budgets=(4, 8), loops=("imposed",), **values):
        """Rows of the running model; its KL is small where the recall is large."""
        self.connection.execute(CLOSED_LOOP)
        for policy in policies:
            kl = _KL.get(re.split("[:+@]", policy)[0], 0.07)
            for budget in budgets:
                for loop in loops:
                    row = {
                        "model_id": "b" * 64, "sequence": "one", "policy": policy, "budget": budget,
                        "mode": "stream", "loop": loop, "seed": 0, "trace_id": "a" * 64,
                        "text_id": "c" * 64, "model": "tiny", "steps": TOKENS, "nll_full": 1.5,
                        "budget_request": f"{100 * budget // TOKENS}%", "nll": 1.5 + kl / budget,
                        "delta_nll": kl / budget, "kl_mean": 4 * kl / budget, "top1_agreement": 0.9,
                        "answers": 8, "answers_right_full": 8, "answers_right": round(8 - 80 * kl),
                        "kept_overlap": 1 - 4 * kl if loop == "adaptive" else 1.0,
                        "peak_tokens": budget, "cache_bytes": 256 * budget, "prompt_length": 0,
                        "spans_id": "d" * 64, "device": "cpu",
                        "kvsim_version": "0.1.0", "policy_code": "0123456789abcdef",
                        "run_id": "20260101T000000Z-00000000",
                    }  # fmt: skip
                    self.add("closed_loop", **{**row, **values})
        return self


def comparison_of(path, **choice):
    report = pytest.importorskip("kvsim.report")
    return report.Comparison(kvsim.load(path), report.Choice(**choice))


def drawings_of(path, **choice):
    """What the report draws of a file, by name."""
    return drawings_in(comparison_of(path, **choice))


def drawings_in(comparison):
    page = pytest.importorskip("kvsim.report.page")
    return {plan.name: plan for plan in page.plans(comparison) if hasattr(plan, "draw")}


def drawing_of(path, name, **choice):
    """One of them; those after it are not planned."""
    page = pytest.importorskip("kvsim.report.page")
    comparison = comparison_of(path, **choice)
    found = (plan for module in page._PLANS for plan in module.plan(comparison))
    return next(plan for plan in found if plan.name == name and hasattr(plan, "draw"))


def empty_files(drawing, folder):
    """In place of `write_files` of a report, which takes longer: pictures without contents."""
    from kvsim.report import pictures

    for name in pictures.file_names(drawing.name).values():
        (folder / name).touch()
    shapes = itertools.product(("light", "dark"), ("wide", "narrow"))
    return {f"{theme}-{shape}": "" for theme, shape in shapes}


@pytest.fixture
def without_pictures(monkeypatch):
    """For tests of reports whose pictures do not matter: these are empty files."""
    page = pytest.importorskip("kvsim.report.page")
    monkeypatch.setattr(page, "write_files", empty_files)


@pytest.fixture
def result_file(tmp_path):
    return ResultFile(tmp_path / "results.sqlite")


@pytest.fixture
def whole_file(result_file):
    return make_whole(result_file)


def make_whole(file):
    """A sweep with oracles and all analyses that a figure shows, with the trace in its folder."""
    write_trace(file.path.parent / "trace.h5")
    return file.sweep().analyses().evictions().path


def write_trace(path, softcap=None, window=None, trace_id="a" * 64, prompt=10):
    """Two layers, four query heads on two KV heads."""
    h5py = pytest.importorskip("h5py")
    random = np.random.default_rng(7)
    with h5py.File(path, "w") as file:
        file.attrs.update(kvtrace_version=1, model="test", num_layers=2, num_query_heads=4)
        file.attrs.update(num_kv_heads=2, head_dim=8, value_dim=8, scale=0.5, trace_id=trace_id)
        if softcap is not None:
            file.attrs["logit_softcap"] = softcap
        text = file.create_group("sequences/one")
        text.attrs.update(num_tokens=TOKENS, prompt_length=prompt)
        for layer in range(2):
            group = text.create_group(f"layers/{layer}")
            if window is not None:
                group.attrs["sliding_window"] = window
            for name, heads in (("query", 4), ("key", 2), ("value", 2)):
                group[name] = random.normal(size=(heads, TOKENS, 8)).astype(np.float16)


@pytest.fixture(scope="session")
def program():
    """Runs the program in a folder; skips the test where there is none."""
    if not PROGRAM:
        pytest.skip("KVSIM_PROGRAM does not name the program")

    def run(*arguments, cwd):
        command = [str(Path(PROGRAM).resolve()), *map(str, arguments)]
        subprocess.run(command, cwd=cwd, check=True, capture_output=True)

    return run


COLUMNS_OF_A_RUN = ["run_id", "trace", "kvsim_version"]


def same(frame, other):
    """Compares two frames of a table bit for bit, but for what differs between two runs."""
    drop = [name for name in COLUMNS_OF_A_RUN if name in frame]
    pd.testing.assert_frame_equal(
        _plain(frame.drop(columns=drop)), _plain(other.drop(columns=drop)), check_exact=True
    )


def _plain(frame):
    """Columns of integers with NULLs and of NULLs alone as floats, as `kvsim.load` has them."""
    frame = frame.copy()
    for name in frame.columns:
        if frame[name].isna().all():
            frame[name] = frame[name].astype(float)
        if str(frame[name].dtype) == "Int64":
            frame[name] = frame[name].astype(float if frame[name].isna().any() else np.int64)
    return frame


def specs_of(frame):
    """The policies of a frame in the order of the registry, which is that of "all;oracles".

    Other tests may have added policies to this process; and the order in which policies share a
    unit's replay decides the last digits of output errors.
    """
    order = list(kvsim.policies().name)
    return sorted(frame.policy.unique(), key=lambda spec: order.index(re.split("[:+@]", spec)[0]))
