"""How the documentation is built: sphinx, MyST markdown, furo. No network is used, nor needed to read the pages."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

import memgrad  # noqa: E402  # after the path

project = "memgrad"
author = "The memgrad developers"
version = release = memgrad.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    # ours, in extensions/
    "api_summary",
    "docstrings",
    "doctest_blocks",
    "explorer_gallery",
    "explorer_page",
    "mathml",
    # `-t quick` is for checking the pages: half of the time of a build is drawing.
    *(["blank_figures"] if tags.has("quick") else ["audit_gallery", "page_figures", "paper_figures"]),  # noqa: F821  # sphinx's
]
exclude_patterns = ["_build", "_generated", "benchmarks"]  # tables, which pages include
nitpicky = True
# Types of other packages have no page here to point at.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|matplotlib|torch|jax|jaxlib|optax)\..*"),
    (r"py:.*", r"(collections\.abc|typing|abc|contextlib|os|pathlib|http)\..*"),
    (
        r"py:.*",
        r"(NDArray|Any|Array|Columns|Data|Figure|Times|Progress|Gradient|Callable|ClassVar|memgrad\.memory\.base\.Array"
        r"|memgrad\.experiments\.planning\.own_code\.OwnCode|memgrad\.memory\.gain_factors\.Factor)",
    ),
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

add_module_names = False
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Reference"]

# A copied example can be pasted: without prompts, and without what the commands print.
copybutton_prompt_text = r">>> |\.\.\.(?: |$)|\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "memgrad"
html_static_path = ["static"]
html_css_files = ["math.css", "pages.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
