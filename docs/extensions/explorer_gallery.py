"""The gallery of the explorer: views of the page with their pictures, each a link that opens the explorer there.

`python docs/extensions/explorer_gallery.py` takes the pictures anew, from the page itself, in chromium.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PICTURES = Path(__file__).parent.parent / "images" / "explorer"
FOLDER = "_static/explorer"
PAGE = "_static/memgrad_explorer.html"


@dataclass(frozen=True)
class View:
    """A view of the explorer.

    Args:
        name: Name of its picture.
        title: What it is.
        says: What is seen there, in a sentence.
        address: The part of the address after `#`.
    """

    name: str
    title: str
    says: str
    address: str


WEIGHTS = "step=2&k=60&show=memory,sgd"
NESTEROV = "inst+0.25*(1+k)*poly:4"

METHODS = (
    View("sgd", "SGD", "The newest gradient, and nothing else.", f"{WEIGHTS}&memory=inst"),
    View("memsgd-1", "MemSGD, p = 1", "The plain average of all gradients.", f"{WEIGHTS}&memory=poly:1"),
    View("memsgd-2", "MemSGD, p = 2", "Linear memory: weights rise like a ramp.", f"{WEIGHTS}&memory=poly:2"),
    View("memsgd-4", "MemSGD, p = 4", "Cubic memory: younger, with less in the long tail.", f"{WEIGHTS}&memory=poly:4"),
    View("memsgd-100", "MemSGD, p = 100", "Almost SGD, until many steps are made.", f"{WEIGHTS}&memory=poly:100"),
    View("memsgd-e", "MemSGD, p = e", "Adam's first moment: a constant age.", f"{WEIGHTS}&memory=exp:0.9"),
    View("heavy-ball", "Heavy ball", "Sums, not averages: the gain tends to 10.", f"{WEIGHTS}&memory=sum*exp:0.9"),
    View("nesterov", "Nesterov", "A gain that grows with every step.", f"{WEIGHTS}&memory={NESTEROV}"),
    View("qhm", "QHM", "A little of the newest gradient, and an average.",
         f"{WEIGHTS}&memory=0.3*inst+0.7*cold*exp:0.999"),
    View("aggmo", "AggMo", "Three momenta at once.",
         f"{WEIGHTS}&memory=0.3333*inst+0.3333*sum*exp:0.9+0.3333*sum*exp:0.99"),
    View("ademamix", "AdEMAMix", "A fast average and a slow one.", f"{WEIGHTS}&memory=exp:0.9+5*cold*exp:0.9999"),
    View("adana", "DANA and ADana", "A slowly growing gain on a long memory.",
         f"{WEIGHTS}&memory=inst+(1+k)^0.15*poly:8"),
)  # fmt: skip

FIGURES = (
    View("memories", "memories", "How the families weigh the past: here super-exponential memory.",
         f"{WEIGHTS}&memory=stretch:1.5,h=0.05"),
    View("hb-amplification", "hb-amplification", "Nesterov ahead at first, then noisier than quadratic memory.",
         "step=7&memory=poly:3&kappa=4&noise=0.4&show=memory,nag,ode"),
    View("time-warp", "time-warp", "Linear memory with its clock warped is Nesterov's equation.", "step=9&warp=1"),
    View("verif-noise", "verif-noise", "The variance of a step: k/7 for Nesterov, falling for memory.", "step=6&k=80"),
    View("quadratic-variance", "quadratic-variance", "Nesterov's noise by curvature, against memory's.",
         "step=5&memory=poly:3&show=memory,nag&k=200&lam=0.01"),
    View("verif-noise-quadratic", "verif-noise-quadratic", "Runs and exact expectations on a quadratic.",
         "step=7&memory=poly:3&kappa=1&x=0&y=1&show=memory,nag,ode"),
    View("odes", "odes", "Iterates on the solution of MG-ODE.", "step=8"),
    View("p-verification", "p-verification", "The paper's quartic: p = 2 is smoother and ends a little higher.",
         "step=12&k=600"),
)  # fmt: skip

CLAIMS = (
    View("s1", "S1", "Linear memory has a far smoother path than SGD.",
         "step=8&f=quartic&x=1&y=1&lr=0.05&noise=1&k=200&show=memory,sgd"),
    View("s2", "S2", "Its noise is slightly higher than SGD's: 4/3, for small steps.",
         "step=5&memory=poly:2&show=memory,sgd&k=200&lam=0.1"),
    View("s3", "S3", "The gain of Nesterov's method grows, and with it the noise.", "step=4&k=80"),
    View("s4", "S4", "On a quadratic Nesterov's SDE grows without end; memory's settles.",
         "step=7&steps=400&kappa=1&show=memory,nag,ode"),
    View("s5", "S5", "Nesterov is faster for a while, then unstable.", "step=7&k=60&show=memory,nag,ode"),
    View("s6", "S6", "Two clocks, one path.", "step=9&warp=0.5"),
    View("s7", "S7", "Paths fall as powers of the step, faster for larger p.", "step=10&memory=poly:4&lam=1"),
    View("s8", "S8", "The theorem's bound, above the mean of the runs.", "step=12&k=300"),
    View("m1", "M1", "No memory of gain 1 changes SGD's exponent; a growing gain does.", "step=11"),
)  # fmt: skip

GALLERY = {"methods": METHODS, "figures": FIGURES, "claims": CLAIMS}


class Gallery(Directive):
    """`{explorer-gallery} methods`: pictures with their names, each a link to its view."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Raw HTML, which other builders leave out."""
        cards = "".join(
            f'<a class="explorer-view" href="{PAGE}#{escape(view.address, quote=True)}">'
            f'<img src="{FOLDER}/{view.name}.png" alt="" loading="lazy">'
            f"<strong>{escape(view.title)}</strong> <span>{escape(view.says)}</span></a>"
            for view in GALLERY[self.arguments[0]]
        )
        return [nodes.raw("", f'<div class="explorer-gallery">{cards}</div>', format="html")]


def copy(app: Sphinx, failure: Exception | None) -> None:
    """Put the pictures beside the page."""
    if failure is None and app.builder.format == "html":
        shutil.copytree(PICTURES, Path(app.outdir) / FOLDER, dirs_exist_ok=True)


def setup(app: Sphinx) -> ExtensionMetadata:
    """The directive, and the pictures once everything else is written."""
    app.add_directive("explorer-gallery", Gallery)
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def take_pictures() -> None:
    """One picture per view: the told figures, in few colors, so that the repository stays small."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from memgrad.explorer import PAGE as FILE

    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 640}, reduced_motion="reduce", color_scheme="light")
        for view in (each for views in GALLERY.values() for each in views):
            page.goto("about:blank")
            page.goto(f"{FILE.as_uri()}#{view.address}")
            page.wait_for_function("() => window.memgradExplorer.isIdle()")
            page.wait_for_timeout(300)
            if page.locator("#notices").is_visible():
                raise ValueError(f"the explorer complains of {view.address}: {page.locator('#notices').inner_text()}")
            page.add_style_tag(content="figcaption, .handle { display: none !important }")
            page.wait_for_timeout(200)
            shot = page.locator("section.panel:visible .figures").first.screenshot()
            image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(48, dither=Image.Dither.NONE)
            image.save(PICTURES / f"{view.name}.png", optimize=True)
            print(view.name, (PICTURES / f"{view.name}.png").stat().st_size)
        browser.close()


if __name__ == "__main__":
    take_pictures()
