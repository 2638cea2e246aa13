"""Figures of data sets."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from memgrad.figures.method_styles import BLUE
from memgrad.figures.style import sheet
from memgrad.problems.datasets import Dataset
from memgrad.problems.datasets.catalogue import UNUSED

COVTYPE_FEATURES = (
    *("elevation", "aspect", "slope", "to water, along", "to water, up", "to roads"),
    *("hillshade 9 h", "hillshade noon", "hillshade 15 h", "to fire points", "Rawah", "Neota", "Comanche", "Poudre"),
)
"""The first 14 features of covtype: 10 numbers and the 4 wilderness areas. The other 40 are types of soil."""


def data_set(data: Dataset, *, columns: int = 10) -> Figure:
    """A picture of a data set: images of each class side by side, or the classes of a table and their mean features.

    Args:
        data: The data set.
        columns: The number of images of each class, >= 1.

    Example:
        >>> from memgrad.problems import datasets
        >>> figure = data_set(datasets.sample("mnist"), columns=12)
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']
    """
    if columns < 1:
        raise ValueError(f"a picture of a data set needs columns >= 1, got columns={columns!r}.")
    return _table(data) if data.train_inputs.ndim == 2 else _images(data, columns)


def _images(data: Dataset, columns: int) -> Figure:
    """One image: a row for each class with its first examples, one white pixel between them."""
    height, width = data.train_inputs.shape[-2:]
    classes = len(data.class_names)
    picture = np.ones((classes * (height + 1), columns * (width + 1), 3), dtype=np.float32)
    for label in range(classes):
        for column, image in enumerate(data.train_inputs[data.train_targets == label][:columns]):
            colors = image.transpose(1, 2, 0) if image.ndim == 3 else np.repeat(1 - image[..., None], 3, axis=2)
            top, left = label * (height + 1), column * (width + 1)
            picture[top : top + height, left : left + width] = colors
    with sheet((0.45 * columns + 1.2, 0.45 * classes)) as figure:
        axes = figure.add_subplot()
        axes.imshow(picture, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([label * (height + 1) + height / 2 for label in range(classes)], data.class_names)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


def _table(data: Dataset) -> Figure:
    """The frequency of each class, and the means of its features."""
    labels = [label for label, name in enumerate(data.class_names) if name != UNUSED]
    names = [f"{data.class_names[label]} ({label})" for label in labels]
    shares = [float(np.mean(data.train_targets == label)) for label in labels]
    inputs = data.train_inputs[:, : len(COVTYPE_FEATURES)]
    means = np.stack([inputs[data.train_targets == label].mean(0) for label in labels])
    with sheet((8.4, 3.4)) as figure:
        bars, heat = figure.subplots(1, 2, width_ratios=(1, 2), sharey=True)
        bars.barh(range(len(labels)), shares, color=BLUE)
        bars.set_yticks(range(len(labels)), names)
        bars.invert_yaxis()
        bars.set_xlabel("share of the rows")
        for place, share in enumerate(shares):
            bars.text(share, place, f" {share:.1%}", va="center")
        bars.margins(x=0.25)
        picture = heat.imshow(means, aspect="auto", vmin=0, vmax=1, cmap="cividis")
        heat.set_xticks(range(inputs.shape[1]), COVTYPE_FEATURES[: inputs.shape[1]], rotation=45, ha="right")
        heat.tick_params(axis="y", length=0)
        figure.colorbar(picture, ax=heat, label="mean, scaled to [0, 1]")
    return figure
