r"""Math as MathML, made at build time by docutils' own converter.

Browsers show MathML themselves, so a page needs no script, no font download and no network. A formula the converter
does not know is a warning, hence an error of the build.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# What the converter does not read as TeX does.
TEX = [
    # The index of \hat v_k belongs beside, not below: an empty group ends the accent.
    (re.compile(r"\\(hat|bar|dot|ddot|tilde)(?![A-Za-z])\s*(\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z])"), r"{\\\1{\2}{}}"),
    (re.compile(r"\\dots(?![A-Za-z])"), r"\\ldots"),
    # An argument without braces is one character, not the whole of a number.
    (re.compile(r"\\frac\s*([0-9])\s*([0-9A-Za-z])"), r"\\frac{\1}{\2}"),
]
# What it does not space or stretch as TeX does.
MINUS = "\N{MINUS SIGN}"
THIN = '<mspace width="0.1667em"></mspace>'
MATHML = [
    (re.compile(r'<mo stretchy="false">/</mo>'), '<mo stretchy="false" lspace="0" rspace="0">/</mo>'),
    # A minus after a relation, a comma or a bracket is a sign.
    (re.compile(rf"(<mo[^>]*>(?:=|&lt;|&gt;|≤|≥|→|,|;|\(|\[)</mo>\s*)<mo>{MINUS}"), rf'\1<mo form="prefix">{MINUS}'),
    (re.compile(r"<mo>\.</mo>"), "<mtext>.</mtext>"),
    # The two ends of a norm or a scalar product are equally high, also where one carries an exponent.
    (re.compile(r"<mo(?: class=\"mathopen\")?>([‖|⟨⟩])</mo>"), r'<mo stretchy="false">\1</mo>'),
    # A thin space between log and its neighbors, unless it is a bracket.
    (re.compile(r"(</(?:mi|mn|msub|msup|mfrac|msqrt)>\s*)(<mi>[a-z]+</mi>\s*<mo>&ApplyFunction;)"), rf"\1{THIN}\2"),
    (re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*(?:<mrow>\s*)?<mo[^>]*>\()"), rf"\g<0>{THIN}"),
]


def to_mathml(tex: str, *, as_block: bool = False) -> str:
    r"""The MathML of a formula, inline or on its own line.

    Example:
        >>> to_mathml("b_k").replace("\n", "").replace(" ", "")
        '<mathxmlns="http://www.w3.org/1998/Math/MathML"><msub><mi>b</mi><mi>k</mi></msub></math>'
    """
    for pattern, replacement in TEX:
        tex = pattern.sub(replacement, tex)
    mathml = tex2mathml(tex, as_block=as_block)
    for pattern, replacement in MATHML:
        mathml = pattern.sub(replacement, mathml)
    return mathml


def _convert(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    try:
        return to_mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("no MathML for %r: %s", node.astext(), error, location=node)
        return ""


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write inline math."""
    self.body.append(_convert(node, as_block=False).replace("\n", ""))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on its own line."""
    self.body.append(self.starttag(node, "div", "", CLASS="math"))
    self.body.append(_convert(node, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def join_punctuation(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Keep inline math and the punctuation after it on one line, which browsers do not do by themselves."""
    for math in list(doctree.findall(nodes.math)):
        after = math.next_node(nodes.Text, descend=False, siblings=True)
        if after is None or after.parent.index(after) != math.parent.index(math) + 1:
            continue
        end = re.match(r"[.,;:)”?-]*", after)
        if end and end[0]:
            after.parent.replace(after, nodes.Text(after[end.end() :]))
            math.replace_self(nodes.inline("", "", math.deepcopy(), nodes.Text(end[0]), classes=["unbroken"]))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.connect("doctree-resolved", join_punctuation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
