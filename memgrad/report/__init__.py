"""The report on a reproduction of the paper, as one self-contained HTML file.

`content` computes what the report says, with the tables of `methods`, the `remarks` beside numbers, the `wording` of
numbers and lists, and the `embedding` of pictures and files; `page` fills the template with it. The page runs no script
and loads nothing: its content security policy forbids both, so that no name or message in the data can do so.
"""

from memgrad.extras import require

require("memgrad.report", extra="lab", modules=("jinja2", "matplotlib", "scipy"))

from memgrad.report.page import write_report

__all__ = ["write_report"]
