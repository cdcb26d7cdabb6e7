"""scripts/killable.py: whatever a check does, it ends, and the next one has a worker."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import killable
import pytest

SCRIPT = Path(killable.__file__)


@pytest.fixture(autouse=True)
def _nothing_remembered():
    killable._remembered.cache_clear()


def workers() -> set[int]:
    return {worker.process.pid for worker in killable._shared_pool().idle}


@pytest.mark.parametrize(
    ("call", "row"),
    [
        ("time.sleep", [60]),
        ("operator.pow", [9, 9**9]),  # one C call that holds the interpreter's lock
        ("re.match", ["(a+)+$", "a" * 60 + "!"]),
        ("builtins.bytes", [6 << 30]),  # more memory than a worker may have, and less than the machine
        ("os.abort", []),
        ("os._exit", [0]),
        ("os.kill", [0, signal.SIGKILL]),  # its whole process group, which is its own
    ],
)
def test_what_costs_too_much_or_dies_is_over_budget(call, row):
    started = time.monotonic()
    assert killable.run(call, [row, [2, 3]] if call == "operator.pow" else [row], 1.0)[0] == killable.OVER_BUDGET
    assert time.monotonic() - started < 20
    assert killable.run("operator.add", [[1, 2]], 5.0) == [3]


def test_the_process_that_was_killed_is_gone():
    before = workers()
    assert killable.run("time.sleep", [[60.5]], 0.3) == [killable.OVER_BUDGET]
    running = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
    mine = {int(line.split()[0]) for line in running.splitlines() if str(SCRIPT) in line and "ps -eo" not in line}
    assert not (before - workers()) & mine


def test_results_keep_the_order_of_the_rows():
    rows = [[number, number] for number in range(50)]
    assert killable.run("operator.mul", rows, 5.0) == [number * number for number in range(50)]
    assert killable.run("operator.mul", [], 5.0) == []


def test_a_worker_that_died_while_idle_is_not_held_against_the_row():
    killable.run("operator.add", [[1, 2]], 5.0)
    for pid in workers():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    assert killable.run("operator.add", [[3, 4]], 5.0) == [7]


def test_a_worker_that_is_killed_from_outside_is_not_held_against_the_row():
    """The kernel kills what it likes when memory runs out: the row is tried again."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(killable.run("time.sleep", [[1.5]], 10.0)))
    thread.start()
    time.sleep(0.5)
    listed = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    ours = {int(pid) for pid in listed.split() if "killable" in Path(f"/proc/{pid}/cmdline").read_text()}
    (busy,) = ours - workers()
    os.kill(busy, signal.SIGKILL)
    thread.join(20)
    assert found == [None]


def test_imports_are_not_on_the_budget(tmp_path, monkeypatch):
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(1.5)\ndef one(): return 1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    killable._end_pool()
    assert killable.run("slow_module.one", [[]], 0.5) == [1]


def test_what_a_check_prints_is_no_reply():
    assert killable.run("builtins.print", [['{"value": 7}']], 5.0) == [None]


def test_errors_of_the_check_and_of_the_installation_are_raised():
    with pytest.raises(RuntimeError, match="JSONDecodeError"):
        killable.run("json.loads", [["{"]], 5.0)
    with pytest.raises(ImportError, match="no_such_module"):
        killable.run("no_such_module.check", [[1]], 5.0)
    with pytest.raises(RuntimeError, match="no_such_function"):
        killable.run("json.no_such_function", [[1]], 5.0)
    assert killable.run("operator.add", [[1, 2]], 5.0) == [3]


def test_workers_that_do_not_start_are_said(monkeypatch):
    killable._end_pool()
    monkeypatch.setattr(killable.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ends at once"):
        killable.run("operator.add", [[5, 6]], 5.0)


def test_several_threads_share_the_pool():
    killable._end_pool()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: killable.run("operator.mul", [[n, 2], [n, 3]], 10.0), range(40)))
    assert found == [[n * 2, n * 3] for n in range(40)]
    assert len(workers()) <= killable.worker_count()


def test_equal_rows_are_run_once_and_remembered():
    path = "operator.add"
    asked = []
    pool = killable._shared_pool()
    original = pool.ask
    pool.ask = lambda request: asked.append(request) or original(request)
    try:
        assert killable.run(path, [[1, 1], [1, 1], [2, 2]], 5.0) == [2, 2, 4]
        assert killable.run(path, [[2, 2]], 5.0) == [4]
    finally:
        del pool.ask
    assert len(asked) == 2


def test_a_worker_retires_after_its_share_and_its_last_row_runs_once(monkeypatch, tmp_path):
    """sympy's caches only grow, so a worker does not live for ever."""
    monkeypatch.setattr(killable, "REQUESTS_PER_WORKER", 1)
    (tmp_path / "counted.py").write_text(
        "import sys\ndef note(path):\n    open(path, 'a').write('x')\n    return 1\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    killable._end_pool()
    assert killable.run("counted.note", [[str(tmp_path / "runs")]], 10.0) == [1]
    assert (tmp_path / "runs").read_text() == "x" and not workers()


def test_a_fork_gets_workers_of_its_own():
    killable.run("operator.add", [[1, 2]], 5.0)
    parent = workers()
    pid = os.fork()
    if not pid:
        killable._remembered.cache_clear()
        is_right = killable.run("operator.add", [[20, 22]], 10.0) == [42] and not workers() & parent
        os._exit(0 if is_right else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert killable.run("operator.add", [[7, 8]], 5.0) == [15] and workers() & parent


def test_workers_end_with_their_parent():
    """Also with one that is killed, and also while a check runs: nothing goes on eating a core."""
    code = (
        "import killable, threading, sys\n"
        "killable.run('operator.add', [[1, 2]], 5.0)\n"
        "print(killable._shared_pool().idle[0].process.pid, flush=True)\n"
        "killable.run('time.sleep', [[60]], 1.0)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=SCRIPT.parent, stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(60):
        if not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    raise AssertionError("the worker outlived its parent and its budget")


def test_ranks_share_the_cores(monkeypatch):
    monkeypatch.setattr(killable.os, "sched_getaffinity", lambda pid: range(16), raising=False)
    assert killable.worker_count() == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert killable.worker_count() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "64")
    assert killable.worker_count() == 1


def test_it_works_off_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.extend(killable.run("time.sleep", [[60.25], [0]], 0.5)))
    thread.start()
    thread.join(20)
    assert found == [killable.OVER_BUDGET, None]
