"""The report: its numbers are those of the functions it stands on, its text is escaped, and a browser shows it."""

import html.parser
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import PATH, Browser

import gpuensemble as ge
from gpuensemble._report import html as pieces
from gpuensemble._report.findings import TABLES
from gpuensemble._report.report import files_of

EVIL = "<script>window.hacked = 1</script>"
NAMES = [f"{EVIL}{i}" if i % 3 else f'"><img src=x onerror="window.hacked=1">{i} & \u202e' for i in range(60)]


def labels(n=60, r=8):
    """Three clear clusters in a table with names that are no good HTML, and some holes."""
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((n, r)) < 0.15, rng.integers(0, 3, (n, r)), np.arange(n)[:, None] % 3)
    table = pd.DataFrame(codes.astype("float64"), index=NAMES, columns=[f"{EVIL}{i}" for i in range(r)])
    return table.mask(rng.random((n, r)) < 0.1)


class Page(html.parser.HTMLParser):
    """What is in a page: tags with their attributes, and tables as rows of texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self._cell = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = ""

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self._cell)
            self._cell = None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report on evil names, and where it is."""
    folder = tmp_path_factory.mktemp("report")
    options = {"title": EVIL, "random_state": 0, "device": "cpu"}
    found = ge.report(labels(), range(2, 6), out=folder / "page.html", tables=folder / "tables", **options)
    return folder, found


def test_findings_are_those_of_the_functions(made):
    _, found = made
    choice = ge.choose_k(labels(), range(2, 6), random_state=0, device="cpu")
    pd.testing.assert_frame_equal(found.choice.table, choice.table)
    assert found.choice.recommended == 3
    np.testing.assert_array_equal(found.labels, choice.labels[3])
    assert found.labels.index.tolist() == NAMES
    expected = ge.stability(labels(), found.labels, device="cpu")
    pd.testing.assert_frame_equal(found.stability.samples.drop(columns="kept"), expected.samples)
    assert found.stability.samples["kept"].between(0, 1).all()
    np.testing.assert_array_equal(found.tree.cut(3), pd.factorize(found.labels)[0])


def test_the_page_shows_these_numbers(made):
    folder, found = made
    page = Page((folder / "page.html").read_text("utf-8"))
    tables = {table[0][0]: table for table in page.tables}
    of_k = tables["K"]
    assert [row[0] for row in of_k[1:]] == ["2", "3", "4", "5"]
    row = found.choice.table.loc[4]
    cell = of_k[3][of_k[0].index("excess")]
    assert cell == f"{row['excess']:.3f} ± {row['excess_error']:.3f}"
    assert [int(row[1]) for row in tables["cluster"][1:]] == found.stability.clusters["size"].tolist()
    least = found.stability.samples["margin"].min()
    assert float(tables["sample"][1][tables["sample"][0].index("margin")]) == pytest.approx(least, abs=1e-3)
    marked = [tag for tag, attributes in page.tags if attributes.get("class") == "chosen"]
    assert marked == ["tr"]


def test_names_of_the_data_are_text_and_nothing_else(made):
    folder, _ = made
    text = (folder / "page.html").read_text("utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert all(attributes["src"].startswith("data:image/png;base64,") for tag, attributes in page.tags if tag == "img")
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    shown = {row[0] for row in next(table for table in page.tables if table[0][0] == "sample")[1:]}
    assert shown == set(NAMES)


def test_nothing_comes_from_elsewhere(made):
    folder, _ = made
    text = (folder / "page.html").read_text("utf-8")
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)
    assert "url(" not in text
    assert "@import" not in text


def test_the_same_input_makes_the_same_file(made, tmp_path):
    folder, _ = made
    options = {"title": EVIL, "random_state": 0, "device": "cpu"}
    ge.report(labels(), range(2, 6), out=tmp_path / "page.html", **options)
    one, two = (Path(place / "page.html").read_text("utf-8").replace(str(place), "") for place in (folder, tmp_path))
    assert one == two


def test_tables_are_written_in_full(made):
    folder, found = made
    names = {path.stem for path in (folder / "tables").iterdir()}
    assert names == set(TABLES) == {Path(path).stem for path in files_of("tables")}
    clusters = pd.read_csv(folder / "tables" / "clusters.csv", index_col=0)
    pd.testing.assert_frame_equal(clusters, found.stability.clusters, check_dtype=False, check_index_type=False)
    assert len(pd.read_csv(folder / "tables" / "partitions.csv")) == 8


def test_a_drawn_seed_is_named_and_finds_the_same(tmp_path):
    out = tmp_path / "page.html"
    found = ge.report(labels().to_numpy(), 3, out=out, device="cpu")
    seed = int(re.search(r"random_state=(\d+)", out.read_text("utf-8")).group(1))
    again = ge.report(labels().to_numpy(), 3, out=out, device="cpu", random_state=seed)
    np.testing.assert_array_equal(found.labels, again.labels)
    assert found.choice is None


@pytest.mark.parametrize("k", [3, range(2, 5)])
def test_of_features(tmp_path, k):
    X = 8 * np.eye(3, 5)[np.arange(60) % 3] + np.random.default_rng(0).standard_normal((60, 5))
    frame = pd.DataFrame(X, index=NAMES)
    method = ge.ConsensusClustering(2, n_partitions=6)
    found = ge.report(frame, k, consensus=method, out=tmp_path / "a.html", random_state=0, device="cpu")
    assert ge.metrics.ari(found.labels, np.arange(60) % 3) == 1
    assert found.partitions.shape == (60, 6)
    assert found.labels.index.tolist() == NAMES
    assert "ConsensusClustering" in (tmp_path / "a.html").read_text("utf-8")


@pytest.mark.parametrize(
    "table",
    [
        [[0, 0], [0, 1], [1, 1]],
        [["a", None], ["a", "x"], ["b", "x"], ["b", None]],
        np.arange(40)[:, None] % 20 + np.zeros((1, 3), int),
        pd.DataFrame({"p": [0, 0, 1, 1]}, index=pd.Index([1, 2, 3, 4], name="cluster")),
    ],
)
def test_small_tables_make_a_report(tmp_path, table):
    ge.report(table, 2, out=tmp_path / "a.html", random_state=0, device="cpu")
    assert (tmp_path / "a.html").stat().st_size > 10_000


def test_without_a_clear_k_the_page_says_so(tmp_path):
    noise = np.random.default_rng(0).integers(0, 3, (60, 5))
    with pytest.warns(UserWarning, match=r"^No clear K: .* is taken\.$"):
        found = ge.report(noise, range(2, 5), out=tmp_path / "a.html", random_state=0, device="cpu")
    text = (tmp_path / "a.html").read_text("utf-8")
    assert "No clear K" in text
    assert f"K = {found.choice.chosen} is shown below, but not recommended" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "a.pdf"}, r"^`out` must end in \.html, got 'a\.pdf'\.$"),
        ({"out": 3}, r"^`out` must be the path of a file, got 3 of type int\.$"),
        ({"out": "no/such/a.html"}, r"^`out` must be a file in a folder that is there, got 'no/such/a\.html'\.$"),
        ({"out": "a.html", "tables": __file__}, r"^`tables` must be a folder, or nothing yet, got '.*'\.$"),
        ({"out": "a.html", "consensus": "nothing"}, r"^`consensus` must be one of .*, got 'nothing'\.$"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=message):
        ge.report(labels(), 3, device="cpu", **options)
    assert not list(tmp_path.iterdir())


def test_what_is_not_known_is_an_empty_cell():
    frame = pd.DataFrame({"x": [0.5, np.nan], "y": ["a", None]}, index=pd.Index([1, 2], name="x"))
    table = Page(pieces.table(frame, "")).tables[0]
    assert table == [["x", "x", "y"], ["1", "0.500", "a"], ["2", "", ""]]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if PATH is None:
        pytest.skip("needs chromium")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


def column(browser, table, number):
    """The texts of a column, as they stand in the page."""
    cells = f"[...document.querySelectorAll('table.sortable')][{table}].tBodies[0].rows"
    return browser.value(f"[...{cells}].map(row => row.cells[{number}].textContent)")


def test_a_browser_shows_it_without_asking_anybody(browser, made):
    folder, _ = made
    browser.open(folder / "page.html")
    assert browser.errors == []
    assert [address for address in browser.asked if not address.startswith("data:")] == [f"file://{folder}/page.html"]
    assert browser.value("window.hacked") is None
    assert browser.value("document.title") == EVIL
    assert browser.value("[...document.images].every(image => image.complete && image.naturalWidth > 100)")
    assert browser.value("document.images.length") == 11


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_fits_into_the_window(browser, made, width):
    folder, _ = made
    browser.open(folder / "page.html", width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("Math.max(...[...document.images].map(image => image.getBoundingClientRect().right))") <= width
    assert browser.picture().startswith(b"\x89PNG")


def test_a_click_sorts_and_another_turns_it_round(browser, made):
    folder, found = made
    browser.open(folder / "page.html")
    excess = found.choice.table["excess"]
    heads = browser.value("[...document.querySelector('table.sortable').tHead.rows[0].cells].map(x => x.textContent)")
    number = heads.index("excess")
    button = f"document.querySelector('table.sortable').tHead.rows[0].cells[{number}].querySelector('button')"
    browser.value(f"{button}.click()")
    assert [int(k) for k in column(browser, 0, 0)] == excess.sort_values(kind="stable").index.tolist()
    browser.value(f"{button}.click()")
    assert [int(k) for k in column(browser, 0, 0)] == excess.sort_values(ascending=False, kind="stable").index.tolist()
    state = "document.querySelector('table.sortable').tHead.rows[0].cells[%d].getAttribute('aria-sort')"
    assert browser.value(state % number) == "descending"


def test_the_page_can_be_read_without_scripts(browser, made):
    folder, found = made
    browser.open(folder / "page.html", scripts=False)
    assert browser.value("document.querySelectorAll('button').length") == 0
    assert browser.value("document.querySelectorAll('table.sortable').length") == 4
    assert [int(k) for k in column(browser, 0, 0)] == found.choice.table.index.tolist()
