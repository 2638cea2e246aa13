"""The report on a reproduction of the paper, as one self-contained HTML file.

`content` computes what the report says, with the tables of `methods`, the `wording` of numbers and lists, and the
`embedding` of pictures and files; `page` fills the template with it. `remarks` has the sentences beside verdicts and
numbers: the headline, what would decide an open claim, how to read a number (fixed texts in `errata_and_remarks.toml`).
The page runs no script and loads nothing: its content security policy forbids both, so that no name or message in the
data can do so.
"""

from memgrad.extras import require

require("memgrad.report", extra="lab", modules=("jinja2", "matplotlib", "scipy"))

from memgrad.report.page import write_report

__all__ = ["write_report"]
