"""Few-shot prompts from data sets of questions, as texts that a model is evaluated on."""

from .few_shot import TEMPLATE, Template, few_shot
from .multiple_choice import multiple_choice
from .questions import Question, read_questions

__all__ = ["TEMPLATE", "Question", "Template", "few_shot", "multiple_choice", "read_questions"]
