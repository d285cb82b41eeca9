"""Recipes: files of YAML that name a policy, which `recipe:file=PATH` stands for in every spec.

In: what a search found, or the path of a recipe. Out: a recipe, or what other programs run of it:
code for kvpress, an array for LU-KV, the configuration of pages. Read first: `file.py`, which
writes and reads recipes; the engine (policies/registry/recipe.h) checks them. `export.py` is the
function, `kvpress_code.py`, `arrays.py` and `pages.py` write one form each.
"""

from .export import FORMS, export_recipe
from .file import Recipe, read_recipe, write_recipe

__all__ = ["FORMS", "Recipe", "export_recipe", "read_recipe", "write_recipe"]
