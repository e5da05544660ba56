"""Render formulas as MathML with docutils: browsers draw it without a script and without a network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: Notation that docutils does not support, with an equivalent that it does.
SPELLINGS = (
    (r"\\dots\b", r"\\ldots"),
    (r"\\([tdc]?frac)\s*(\w)\s*(\w|\\[a-z]+)", r"\\\1{\2}{\3}"),
    ("°", r"^{\\circ}"),
    (r"\\([Bb]igg?)([(\[])", r"\\\1l\2"),
    (r"\\([Bb]igg?)([)\]])", r"\\\1r\2"),
)
#: Notation that docutils misreads silently.
MISREAD = re.compile(r"\\[tdc]?frac\s*[^\s{]|\\sqrt\s*[^\s{\[]|[_^]\d\d")


def write_formula(translator, node):
    """Write an inline or displayed formula; one that cannot be parsed is left as it is, with a warning."""
    tex, block = node.astext(), isinstance(node, nodes.math_block)
    for pattern, known in SPELLINGS:
        tex = re.sub(pattern, known, tex)
    try:
        if MISREAD.search(tex):
            raise MathError("Arguments without braces")
        formula = tex2mathml(tex, as_block=block)
        if r"\left" not in tex:  # else the bars of a norm would stretch with their neighbors
            formula = re.sub(
                "<mo(?: class=[^>]*)?>‖</mo>", '<mo stretchy="false" lspace="0" rspace="0">‖</mo>', formula
            )
    except MathError as error:
        logger.warning("%s in the formula %r", error, tex, location=node)
        formula = translator.encode(tex)
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    opening = translator.starttag(node, "div" if block else "span", CLASS="math notranslate nohighlight")
    translator.body.append(f"{opening.rstrip()}{formula}{number}</{'div' if block else 'span'}>")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    return {"parallel_read_safe": True}
