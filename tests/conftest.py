"""What several test files use, and the options of the documentation checks: `--fix`, `--stamp`, `--strict-stamps`."""

from pathlib import Path

import docsync
import pytest
from pages import asked, chromium, picture, width  # noqa: F401 (fixtures)


@pytest.fixture
def logged():
    """What a reward writes through TRL's hooks."""

    class Hooks:
        def __init__(self):
            self.extra, self.metrics = {}, {}

        def log_extra(self, column, values):  # extends, as TRL's does
            self.extra.setdefault(column, []).extend(values)

        def log_metric(self, name, value):
            self.metrics[name] = value

        def kwargs(self):
            return {"log_extra": self.log_extra, "log_metric": self.log_metric, "trainer_state": None}

    return Hooks()


def pytest_addoption(parser):
    group = parser.getgroup("documentation")
    group.addoption("--fix", action="store_true", help="rewrite fences, generated blocks and mirrors before the tests")
    group.addoption("--stamp", action="store_true", help="renew `Last verified` if the whole suite passes")
    group.addoption("--strict-stamps", action="store_true", help="an old stamp, or one of other versions, is an error")


def pytest_configure(config):
    config.addinivalue_line("markers", "stamp: checks `Last verified`; may fail in a session that renews it")
    config.pluginmanager.register(Session(config), "documentation")


class Session:
    """What `--fix` changed, and whether the session proves enough to stamp."""

    def __init__(self, config):
        self.config = config
        self.fixed, self.said = [], []
        self.broken, self.unproved = set(), set()

    def pytest_sessionstart(self):
        if self.config.option.fix:
            self.fixed = docsync.fix(docsync.ROOT)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.broken.add(f"{report.nodeid or 'the session'} was not collected: {report.outcome}")

    def pytest_deselected(self, items):
        self.broken |= {f"{item.nodeid} was deselected" for item in items}

    def pytest_collection_finish(self, session):
        if not self.config.option.stamp:
            return
        self.unproved = {item.nodeid for item in session.items if not item.get_closest_marker("stamp")}
        tests = Path(__file__).parent
        data = set((tests / "data").rglob("test_*.py"))  # what the sandbox judges, none of ours
        left_out = set(tests.rglob("test_*.py")) - data - {item.path for item in session.items}
        self.broken |= {f"{path.relative_to(docsync.ROOT)} was not collected" for path in left_out}
        if self.config.args_source is self.config.ArgsSource.ARGS:
            self.broken.add("paths on the command line select a part of the suite")
        if self.fixed:
            self.broken.add("--fix changed files: read the changes, then stamp")
        if self.broken:
            pytest.exit("not stamped, nothing was run:\n  " + "\n  ".join(sorted(self.broken)), returncode=1)

    def pytest_runtest_logreport(self, report):
        if report.passed and report.when == "call":
            self.unproved.discard(report.nodeid)
        elif report.failed and report.when != "call":
            self.broken.add(f"{report.nodeid} broke in its {report.when}")

    def pytest_sessionfinish(self, session, exitstatus):
        if self.config.option.stamp and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            reasons = sorted(self.broken | {f"{test} did not pass" for test in self.unproved})
            try:
                self.said = ["not stamped:", *reasons] if reasons else docsync.stamp(docsync.ROOT)
            except ValueError as error:
                self.said = reasons = [f"not stamped: {error}"]
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if reasons else pytest.ExitCode.OK
        if self.fixed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.fixed or self.said:
            terminalreporter.section("documentation")
            for line in [*self.fixed, *self.said]:
                terminalreporter.write_line(line)
