"""Texts that ask questions, a model that answers from a compressed cache, and its scores."""

from importlib import import_module

from .asking.summary import scores
from .few_shot import TEMPLATE, Template, few_shot
from .multiple_choice import multiple_choice
from .questions import Question, read_questions
from .synthetic.chains import chains
from .synthetic.conversation import Turn, conversation
from .synthetic.ruler import ruler

_NEED_TORCH = {"evaluate": ".asking.run"}  # imported on first use

__all__ = [
    "TEMPLATE",
    "Question",
    "Template",
    "Turn",
    "chains",
    "conversation",
    "few_shot",
    "multiple_choice",
    "read_questions",
    "ruler",
    "scores",
    *_NEED_TORCH,
]


def __getattr__(name: str) -> object:
    if name in _NEED_TORCH:
        return getattr(import_module(_NEED_TORCH[name], __name__), name)
    raise AttributeError(f"module 'kvsim.tasks' has no attribute {name!r}")
