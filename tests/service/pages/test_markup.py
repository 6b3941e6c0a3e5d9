"""The reader that all pages are held to finds what is wrong with one."""

from __future__ import annotations

import pytest

from tests.service.pages.markup import read

FINE = (
    '<!doctype html><html lang="en"><head><title>T</title></head><body><header>h</header>'
    "<main><h1>H</h1>{}</main></body></html>"
)


def test_a_page_that_is_fine() -> None:
    document, problems = read(FINE.format('<label for="a">A</label><input id="a" name="a"><p>x &amp; y</p>'))
    assert problems == []
    assert [p.words for p in document.all("p")] == ["x & y"]


@pytest.mark.parametrize(
    ("piece", "problem"),
    [
        ("<p><b>x</p></b>", "</p> within <b>"),
        ("<div>", "</main> within <div>"),
        ('<p id="a"></p><p id="a"></p>', "id a 2 times"),
        ('<p class="a" class="b"></p>', "p: class twice"),
        ('<input name="x">', "<input name=x> has no label"),
        ("<button></button>", "<button> says nothing"),
        ("<h3>x</h3>", "h1 is followed by h3"),
        ("<h1>x</h1>", "not one <h1>"),
        ("<p onclick=x></p>", "p has onclick"),
        ('<p style="x"></p>', "p has style"),
        ("<script>x</script>", "inline script"),
        ("<style></style>", "inline style"),
        ('<a href="https://example.com/">x</a>', "a leads elsewhere"),
        ('<a href="#b">x</a>', "#b: leads nowhere"),
        ('<p aria-describedby="b"></p>', "aria-describedby b: no such id"),
        ('<table><tr><th scope="col">x</th></tr></table>', "a table has no caption"),
        ("<table><caption>x</caption><tr><th>x</th></tr></table>", "a table's head has no scope"),
        ('<form method="post" action="/x"></form>', "the form to /x has no CSRF token"),
        ("<nav></nav>", "<nav> has no name"),
    ],
)
def test_what_is_wrong_is_told(piece: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in read(FINE.format(piece))[1])
