"""Configuration of the documentation: ``make docs``, or ``sphinx-build -W -n docs docs/_build/html``.

The build needs no network. Warnings are errors, and every cross-reference must have a target.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import srosr

os.environ.setdefault("MPLBACKEND", "agg")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "srosr"
author = "the srosr developers"
project_copyright = author
version = release = srosr.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    # ours, in _ext
    "formulas",
    "references",
    "root_pages",
]
exclude_patterns = ["_build", "_ext", "api/backreferences", "auto_examples/*.ipynb", "auto_examples/*.py"]
templates_path = ["_templates"]
nitpicky = True
default_role = "py:obj"
highlight_language = "default"  # Python if it parses, else plain text

# -- Markdown ----------------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
myst_dmath_double_inline = True

# -- reference ---------------------------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"
add_module_names = False

# -- figures and examples ----------------------------------------------------------------------------------

plot_formats = [("png", 150)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"savefig.bbox": "tight"}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "gallery_order.place",
    "doc_module": ("srosr",),
    "reference_url": {"srosr": None},
    "backreferences_dir": "api/backreferences",
    "inspect_global_variables": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "abort_on_example_error": True,
    "image_srcset": ["2x"],
    "show_signature": False,
    "copyfile_regex": r"(?!)",
}
warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive", UserWarning)

# -- pages -------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "srosr"
html_static_path = ["_static"]
html_css_files = ["srosr.css"]
html_favicon = "_static/srosr.svg"
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"image_light": "_static/srosr.svg", "image_dark": "_static/srosr.svg", "text": "srosr"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
