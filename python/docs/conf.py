"""Sphinx's settings for the site. `build.py` stages the pages and calls Sphinx with them."""

import os
from importlib.metadata import version as version_of

project = "kvsim"
author = "the kvsim authors"
copyright = "the kvsim authors, Apache-2.0"
version = release = version_of("kvsim")

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
nb_execution_mode = "off"  # notebooks show what they printed when they were made
myst_heading_anchors = 4
myst_links_external_new_tab = False
# A page of plain HTML next to those of Sphinx: `static:../source/x.h.html` is ../source/x.h.html.
myst_url_schemes = {"http": None, "https": None, "mailto": None, "static": "{{path}}"}

nitpicky = True
default_role = "literal"
suppress_warnings = ["myst.header"]  # a page may go from its title to a third level

autodoc_typehints = "none"  # the types stand in the sections, with shapes and units
autodoc_member_order = "bysource"
# What runs a model is documented without torch, where torch is not installed.
autodoc_mock_imports = [name for name in os.environ["KVSIM_DOCS_MOCKED"].split(",") if name]
numpydoc_show_class_members = False
# numpydoc's codes: a section that misses an argument, names one that is not there, in another
# order, without a type; a result without a section; a section of the wrong name or place.
numpydoc_validation_checks = set("GL06 GL07 PR01 PR02 PR03 PR04 RT01 RT03 YD01".split())
# Records, whose arguments are their attributes.
numpydoc_validation_exclude = {r"\.(Replay|Rotation|SelectorStep|TokenKind|Tuned|Unit)$"}

templates_path = []
exclude_patterns = ["_extra", "_static"]
html_theme = "furo"
html_title = "kvsim"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = [os.environ["KVSIM_DOCS_SOURCE"] + "/_static"]
html_css_files = ["site.css"]
html_extra_path = [os.environ["KVSIM_DOCS_SOURCE"] + "/_extra"]
html_theme_options = {"navigation_with_keys": True}
