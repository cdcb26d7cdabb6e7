"""Options of the documentation checks: `--fix`, `--stamp`, `--strict-stamps`."""

import sys
from pathlib import Path

import docsync
import pytest

sys.path.insert(0, str(docsync.ROOT))  # for `scripts.rewards` in an example

STAMP_NEEDS = ("tests/test_docsync.py", "tests/test_rewards.py", "tests/trainer/test_")  # what the documents rely on


def pytest_addoption(parser):
    group = parser.getgroup("documentation")
    group.addoption("--fix", action="store_true", help="rewrite fences, generated blocks and mirrors before the tests")
    group.addoption("--stamp", action="store_true", help="renew `Last verified` if the whole suite passes")
    group.addoption("--strict-stamps", action="store_true", help="an old stamp, or one of other versions, is an error")


def pytest_configure(config):
    config.addinivalue_line("markers", "stamp: checks `Last verified`; may fail in a session that renews it")
    config.addinivalue_line("filterwarnings", "default::docsync.StampWarning")
    if not hasattr(config, "workerinput"):  # not in a worker of pytest-xdist
        config.pluginmanager.register(Session(config), "documentation")


class Session:
    """What `--fix` changed, and whether the session proves enough to stamp."""

    def __init__(self, config):
        self.config = config
        self.fixed, self.said = [], []
        self.broken = set()
        self.unproved = {"the suite"}  # until this process collects it; with pytest-xdist it never does

    def pytest_sessionstart(self):
        if self.config.option.fix:
            self.fixed = docsync.fix(docsync.ROOT)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.broken.add(f"{report.nodeid or 'the session'} was not collected: {report.outcome}")

    def pytest_deselected(self, items):
        self.broken |= {f"{item.nodeid} was deselected" for item in items}

    def pytest_collection_finish(self, session):
        if self.config.option.stamp:
            self.unproved = {item.nodeid for item in session.items if not item.get_closest_marker("stamp")}
            self.broken |= set(self.left_out({item.nodeid.split("::")[0] for item in session.items}))
            if self.broken:
                pytest.exit("not stamped, nothing was run:\n  " + "\n  ".join(sorted(self.broken)), returncode=1)

    def left_out(self, collected):
        """Why the collected files are not the whole suite."""
        tests = {path.relative_to(docsync.ROOT).as_posix() for path in Path(__file__).parent.rglob("test_*.py")}
        yield from (f"{path} was not collected" for path in tests - collected)
        yield from (
            f"no test in {need}*" for need in STAMP_NEEDS if not any(path.startswith(need) for path in collected)
        )
        if self.config.args_source is self.config.ArgsSource.ARGS:
            yield "paths on the command line select a part of the suite"
        if self.fixed:
            yield "--fix changed files: read the changes, then stamp"

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
