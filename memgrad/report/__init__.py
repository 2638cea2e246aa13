"""The report: what was reproduced of the paper, as one HTML file that needs nothing else.

`content` makes values of a reproduction, ready to be read; `page` fills the template with them. The page runs no
script and asks for nothing: its policy forbids both to the browser, so that no name or message in the data can.
"""

from memgrad.extras import require

require("memgrad.report", extra="lab", modules=("jinja2", "matplotlib", "scipy"))

from memgrad.report.page import write_report  # noqa: E402  # after the check, which names the extra

__all__ = ["write_report"]
