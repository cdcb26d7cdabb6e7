"""What the tests of the HTML pages share: hostile texts, what no page of ours may hold, a real browser."""

import html
import html.parser
import json
import re
import shutil
import subprocess
import tempfile

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    not CHROMIUM, reason="NOT RUN: the report was looked at by no browser; apt-get install chromium"
)
CSP = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')

ACT = "document.title='PWNED';document.documentElement.setAttribute('data-pwned','1')"
HOSTILE = [
    f"<script>{ACT}</script>",
    f"</pre></bdi></details><script>{ACT}</script>",
    f"</style><script>{ACT}</script><style>",
    f"</svg></title><script>{ACT}</script>",
    f'<img src=x onerror="{ACT}">',
    f'" onmouseover="{ACT}" autofocus onfocus="{ACT}" x="',
    f"' onclick='{ACT}' x='",
    f'<svg onload="{ACT}">',
    f'<iframe srcdoc="<script>parent.{ACT}</script>">',
    f'<a href="javascript:{ACT}">javascript:{ACT}</a>',
    '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/refresh">',
    '<link rel=stylesheet href="http://127.0.0.1:9/style.css"><img src="http://127.0.0.1:9/pixel.png">',
    "--><!-- <![CDATA[ ]]> <base href='http://127.0.0.1:9/'> <form><button>",
    "{{ 7*7 }}{% for x in y %} {{ record.__class__ }} ${7*7} #{7}",
    "$x^{2}$ $\\frac{1}{",  # what matplotlib would read as mathematics, and fail on
    "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07 \x9b31m",
    "nul\x00 bell\x07 back\x08\x08\x08 del\x7f cr\rover \x85 \x0c \x0b",
    "abc\u202eevil\u202c \u2066iso\u2069 \u200fmark\u061c",
    "zero\u200bwidth\u200d\ufeff\u2060\u00ad\u034f\u3164\u2800 tag\U000e0041\U000e0101 line\u2028para\u2029 nbsp\u00a0",
    "lone \ud800 and \udfff surrogates \uffff \ue000",
    "&lt;script&gt; &#60;b&#62; &amp;amp;",
    "Z\u0351\u036b\u0343\u032a\u0302" * 50,
    "x" * 1_000_000,
    f"<b>{'<i>' * 5000}",
    "",
]


class Elements(html.parser.HTMLParser):
    """Every element with its attributes, and the text."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.found, self.text = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        self.found.append(("!--", {"text": data}))

    handle_pi = unknown_decl = handle_comment


ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "section",
    "div",
    "p",
    "ul",
    "li",
    "h1",
    "h2",
    "h3",
    "span",
    "strong",
    "small",
    "em",
    "b",
    "bdi",
    "br",
    "i",
    "details",
    "summary",
    "pre",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "svg",
    "g",
    "path",
    "defs",
    "use",
    "text",
    "clippath",
    "rect",
    "pattern",
    "main",
    "ol",
    "h4",
    "code",
}


def foreign(page: str) -> list[str]:
    """What no page of ours holds: other elements, comments, event handlers, links out, data from outside."""
    found = []
    for tag, attributes in Elements(page).found:
        if tag not in ALLOWED:
            found.append(tag)
        for name, value in attributes.items():
            away = name.endswith(("href", "src", "action", "srcdoc")) and not (value or "").startswith("#chart")
            act = name.startswith("on") or name == "data-pwned" or name in ("autofocus", "formaction", "background")
            out = name == "style" and re.search(r"url\((?!#chart)|@import|expression", value or "")
            if away or act or out or (name == "http-equiv" and value != "Content-Security-Policy"):
                found.append(f"{tag} {name}={value!r:.60}")
    return found


def skeleton(page: str) -> list[tuple]:
    """The elements of a page without the marks for unseen and cut text. Titles of charts may differ, nothing else."""
    return [
        (tag, *sorted((name, None if name == "aria-label" else value) for name, value in attributes.items()))
        for tag, attributes in Elements(page).found
        if tag not in ("b", "em")
    ]


UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u115f\u1160\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800"
    "\u3164\ufeff\ufffe\uffff\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)


def raw_characters(page: str) -> set[str]:
    return set(UNSEEN.findall(page))


def escape_nothing(patch):
    """The known-bad page: the same template by a renderer that escapes nothing."""
    import jinja2
    import markupsafe

    environment = jinja2.Environment
    patch.setattr(jinja2, "Environment", lambda **options: environment(**{**options, "autoescape": False}))
    patch.setattr(markupsafe, "escape", markupsafe.Markup)


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        colour = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


# ---------------------------------------------------------------- in a browser


@pytest.fixture
def chromium(tmp_path):
    """Opens a page in Chromium; returns its standard output."""

    def run(page: str, *options, scheme="light", size="1200,1400") -> str:
        path = tmp_path / f"{abs(hash(page))}.html"
        path.write_text(page, encoding="utf-8")
        with tempfile.TemporaryDirectory() as profile:
            flags = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--disable-dev-shm-usage",
            ]
            # Blink's enum: 0 = dark, 1 = light. No name is resolved, so that the browser's own calls go nowhere.
            flags += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", f"--window-size={size}"]
            flags += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options]
            done = subprocess.run([CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def acted(dom: str) -> bool:
    found = Elements(dom).found
    assert found and found[0][0] == "html", "the browser showed nothing"
    return "data-pwned" in found[0][1] or "<title>PWNED" in dom


@pytest.fixture
def asked(chromium, tmp_path):
    def asked(page: str) -> set[str]:
        """Addresses the page asked for. What Chromium asks for itself has no origin."""
        log = tmp_path / "net.json"
        log.unlink(missing_ok=True)
        chromium(page, f"--log-net-log={log}", "--dump-dom")
        parameters = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
        return {one["url"] for one in parameters if one.get("initiator", "not an origin") != "not an origin"}

    return asked


@pytest.fixture
def width(chromium):
    def width(page: str) -> int:
        """How wide the page wants to be in a frame of 400 pixels: Chromium's own window has at least 500."""
        ask = (
            "document.body.dataset.wide = document.querySelector('iframe').contentDocument.documentElement.scrollWidth"
        )
        frame = f'<iframe style="border:0" width=400 height=900 srcdoc="{html.escape(CSP.sub("", page))}"></iframe>'
        dom = chromium(f"<body>{frame}<script>onload = () => {{ {ask} }}</script></body>", "--dump-dom")
        return int(re.search(r'data-wide="(\d+)"', dom)[1])

    return width


@pytest.fixture
def picture(chromium, tmp_path):
    def take(page: str, **how):
        import matplotlib.image

        path = tmp_path / "shot.png"
        path.unlink(missing_ok=True)
        chromium(page, f"--screenshot={path}", **how)
        return matplotlib.image.imread(path)[..., :3]

    return take


def blank(image) -> bool:
    return bool(image.std() < 0.02)
