"""Each method has one color, marker and line style everywhere, and all readers can tell methods apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_results import evidence_of
from matplotlib.colors import to_hex, to_rgb
from numpy.typing import NDArray

from memgrad import figures
from memgrad.figures.method_styles import ADAPTIVE, METHODS, PLAIN, look_of, styles
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.figures import draw
from memgrad.paper.settings import AmplificationSettings, SmoothingSettings
from memgrad.statistics import Estimate

EXPLORER = Path(__file__).parents[2] / "explorer" / "src"

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# A difference of 2.3 is just noticeable between adjacent patches; thin lines apart from each other need far more.
# Tritanopia is a thousand times rarer than the others.
LEAST = {"normal": 20.0, "protanopia": 20.0, "deuteranopia": 20.0, "tritanopia": 10.0}


def seen(color: str, vision: str) -> NDArray[np.float64]:
    """A color in CIELAB (D65), as it is seen."""
    c = np.array(to_rgb(color))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    x = to_xyz @ np.clip(VISION[vision] @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colors: Iterable[str], vision: str) -> float:
    """The smallest distance between two of the colors."""
    pairs = itertools.combinations([seen(color, vision) for color in colors], 2)
    return min(float(np.linalg.norm(one - other)) for one, other in pairs)


def test_the_distance_is_that_of_the_definition() -> None:
    assert seen("#ffffff", "normal") == pytest.approx([100, 0, 0], abs=0.01)
    assert seen("#ff0000", "normal") == pytest.approx([53.24, 80.09, 67.20], abs=0.02)  # a value in all tables
    # Red and green that readers with deuteranopia confuse.
    assert nearest(["#b35900", "#6d7a00"], "deuteranopia") < 15
    assert nearest(["#b35900", "#6d7a00"], "normal") > 45


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("looks", [PLAIN, ADAPTIVE], ids=["plain", "adaptive"])
def test_colors_of_methods_in_one_figure_differ_for_all_readers(looks: Mapping[str, Any], vision: str) -> None:
    assert nearest([look.color for look in looks.values()], vision) >= LEAST[vision]


@pytest.mark.parametrize("looks", [PLAIN, ADAPTIVE], ids=["plain", "adaptive"])
def test_in_gray_line_styles_and_markers_tell_methods_apart(looks: Mapping[str, Any]) -> None:
    assert len({look.dash for look in looks.values()}) == len(looks)
    assert len({look.marker for look in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(
    ("label", "method"),
    [
        ("SGD", "SGD"),
        (r"SGD, $p=\infty$", "SGD"),
        ("SGD, momentum 0.9", "HB"),
        ("HB, SGD's lr", "HB"),
        ("HeavyBall 0.9", "HB"),
        (r"Nesterov's SDE, $3/t$", "Nesterov"),
        ("memory $t^{3}$ (MG-SDE)", "MemSGD p=2"),
        ("MemSGD, $p=2$", "MemSGD p=2"),
        ("MemSGD poly:100", "MemSGD p=100"),
        (r"MemSGD, $p=e$ ($\beta=0.8$)", "MemSGD p=e"),
        ("MemSGD exp:0.95", "MemSGD p=e"),
        ("PolyAdam p=10, lr 0.001", "PolyAdam p=10"),
        ("PolyAdam p=1, lr 0.001", "PolyAdam p=1"),
        ("MemSGD p=20", None),
        ("mine", None),
    ],
)
def test_a_label_has_the_look_of_its_method(label: str, method: str | None) -> None:
    assert look_of(label) == (None if method is None else METHODS[method])


def test_other_labels_get_colors_that_are_not_in_the_figure() -> None:
    found = styles(["SGD", "one", "two", "three", "MemSGD p=2"])
    assert len({line["color"] for line in found.values()}) == 5
    assert found["SGD"]["color"] == METHODS["SGD"].color


def test_a_method_twice_has_one_color_and_two_line_styles() -> None:
    one, two = styles(["HB, best lr", "HB, SGD's lr"]).values()
    assert one["color"] == two["color"]
    assert one["linestyle"] != two["linestyle"]
    assert two["markerfacecolor"] == "white"


def colors_in(figure: Any) -> dict[str, str]:
    """The colors of lines with a label, by the label, in all panels."""
    lines = [line for axes in figure.axes for line in axes.lines]
    return {str(line.get_label()): to_hex(line.get_color()).upper() for line in lines}


def test_sgd_has_the_same_color_in_all_figures() -> None:
    evidence = evidence_of(names=["mlp-mini"])
    small = draw("p-verification", settings=SmoothingSettings(steps=20, runs=4)).figure
    compared = figures.comparison(evidence["mlp-mini"], "loss")
    sgd, memory = METHODS["SGD"].color, METHODS["MemSGD p=2"].color
    assert {color for label, color in colors_in(small).items() if label.startswith("SGD")} == {sgd}
    assert {color for label, color in colors_in(compared).items() if label.startswith("SGD")} == {sgd}
    assert {color for label, color in colors_in(small).items() if label.startswith("MemSGD, $p=2$")} == {memory}
    assert {color for label, color in colors_in(compared).items() if label.startswith("MemSGD p=2,")} == {memory}
    settings = AmplificationSettings(end=4.0, dt=0.1, ensemble_dt=0.1, paths=4)
    continuous = colors_in(draw("hb-amplification", settings=settings).figure)
    assert {label.split()[0]: color for label, color in continuous.items() if not label.startswith(("_", "exact"))} == {
        "memory": memory,
        "Nesterov": METHODS["Nesterov"].color,
    }


def test_the_former_name_of_a_ratio_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"use memgrad\.statistics\.Estimate"):
        assert figures.Ratio is Estimate  # type: ignore[attr-defined]


def test_numbers_on_a_narrow_logarithmic_axis_do_not_overlap() -> None:
    figure = draw("step-sizes", evidence=evidence_of(names=FIGURES["step-sizes"].needs, steps=20)).figure
    narrow = figure.axes[1]  # the autoencoder: from 0.001 to 1
    narrow.set_xlim(0.004, 0.06)
    assert [text.get_text() for text in narrow.xaxis.get_minorticklabels() if text.get_text()] == []


# --- the explorer ---

SHOWN = {"memory": "MemSGD p=2", "sgd": "SGD", "hb": "HB", "nag": "Nesterov"}
SHAPES = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}


def css_colors() -> list[dict[str, str]]:
    """The colors of the methods in the light and in the dark theme of the page."""
    text = (EXPLORER / "style.css").read_text()
    found = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in re.findall(r"{([^}]*--memory[^}]*)}", text)
    ]
    return [{name: block[name] for name in SHOWN} for block in found if "sgd" in block]


def test_the_explorer_has_the_same_looks() -> None:
    light, _ = css_colors()
    assert {name: color.upper() for name, color in light.items()} == {n: METHODS[m].color for n, m in SHOWN.items()}
    palette = (EXPLORER / "palette.ts").read_text()
    for name, method in SHOWN.items():
        found = re.search(rf"{name}: {{.*dash: \[(.*?)\], .*marker: \"(\w+)\"", palette)
        assert found is not None
        assert [float(part) for part in found[1].split(",") if part] == pytest.approx(
            [2 * x for x in METHODS[method].dash]
        )
        assert SHAPES[found[2]] == METHODS[method].marker


@pytest.mark.parametrize("vision", VISION)
def test_in_the_dark_the_explorer_has_light_colors_of_the_same_hues(vision: str) -> None:
    light, dark = css_colors()
    assert nearest(dark.values(), vision) >= LEAST[vision]
    for name in SHOWN:
        (_, *one), (lightness, *other) = seen(light[name], "normal"), seen(dark[name], "normal")
        turn = np.angle(complex(*one) / complex(*other), deg=True)
        assert abs(turn) < 25, name
        assert lightness > 55
