"""Runs a check in a process that is killed when it overruns its budget: for rewards that read hostile text.

A time limit inside the trainer does not bound such a check. A thread cannot end another, and gets no turn while one
arithmetic operation or one match of a regular expression holds the interpreter's lock. A signal handler runs on the
main thread only, and AsyncGRPO calls rewards off it (trl#5281, Math-Verify#55). Here the worker arms a watchdog that
ends its own process, whatever that is doing, and the pool starts another one.

Plain subprocesses and not multiprocessing: AsyncGRPO calls rewards in a daemonic process, which may have no
multiprocessing children (trl 1.16.0, experimental/async_grpo/async_rollout_worker.py), and spawning would import the
user's training script again. Run as a script, this file is the worker: one JSON request per line on standard input.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import faulthandler
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import threading

__all__ = ["OVER_BUDGET", "run"]

OVER_BUDGET = "over_budget"  # what `run` gives for a row whose check was killed
MEMORY_BYTES = 4 << 30  # address space of a worker; a check that asks for more is over budget as well
REQUESTS_PER_WORKER = 10_000  # then a fresh one, because sympy's caches only grow


def worker_count() -> int:
    """One per core of this rank, eight at most. Ranks share a machine, so each takes its part."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))))


class _Worker:
    def __init__(self):
        self.answered = 0
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the trainer
        )

    def ask(self, request: bytes):
        """The reply, OVER_BUDGET, or None if the worker died before it began: then the request is not to blame."""
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
            if not self.process.stdout.readline():  # says that the check begins; imports are not on its budget
                return None
            reply = self.process.stdout.readline()
        except OSError:
            return None
        self.answered += 1
        if reply.endswith(b"\n"):
            return json.loads(reply)
        self.process.wait()
        return {"value": OVER_BUDGET}

    def end(self):
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was not written yet
                pipe.close()
        self.process.wait()


class _Pool:
    def __init__(self):
        self.idle, self.lock = [], threading.Lock()
        self.places = threading.BoundedSemaphore(worker_count())

    def _take(self) -> _Worker:
        with self.lock:
            while self.idle:
                worker = self.idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.end()
        return _Worker()

    def ask(self, request: bytes):
        with self.places:
            for _ in range(3):
                worker = self._take()
                reply, is_alive = worker.ask(request), worker.process.returncode is None
                # If it died before it began, or was killed from outside, that may not be this row's fault.
                is_answer = reply is not None and worker.process.returncode != -signal.SIGKILL
                if is_answer and is_alive and worker.answered < REQUESTS_PER_WORKER:
                    with self.lock:
                        self.idle.append(worker)
                else:
                    worker.end()
                if is_answer:
                    break
            if reply is None:
                raise RuntimeError(f"the worker process ends at once: try `{sys.executable} {__file__} < /dev/null`")
        if "missing" in reply:
            raise ImportError(reply["missing"])
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["value"]


_pool, _pool_lock = None, threading.Lock()


def _shared_pool() -> _Pool:
    global _pool  # noqa: PLW0603
    with _pool_lock:
        if _pool is None:
            _pool = _Pool()
        return _pool


def _forget_pool():
    """After a fork: the workers and whatever the locks say belong to the parent."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


@atexit.register
def _end_pool():
    while _pool is not None and _pool.idle:
        _pool.idle.pop().end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run(call: str, rows: list[list], budget_s: float) -> list:
    """`module.function(*row)` for each row, in worker processes, several at a time.

    Args:
        call (`str`): a function of a module beside this file, or of an installed one.
        rows (`list[list]`): arguments, as JSON can hold them.
        budget_s (`float`): wall-clock seconds per row. A worker that needs longer is killed.

    Returns:
        `list`: one result per row, as JSON can hold it, or `OVER_BUDGET`. Equal rows are run once, and short ones are
        remembered: the completions of a group repeat each other, hostile ones included.

    Raises:
        ImportError: the module cannot be imported in the worker.
        RuntimeError: the function raised, or workers do not start.

    Example:
        >>> run("math.factorial", [[3], [4]], budget_s=30)
        [6, 24]
        >>> run("time.sleep", [[60]], budget_s=0.1)
        ['over_budget']
    """
    requests = [json.dumps({"call": call, "row": row, "budget_s": budget_s}).encode() + b"\n" for row in rows]
    distinct = list(dict.fromkeys(requests))
    with concurrent.futures.ThreadPoolExecutor(max(1, min(len(distinct), worker_count()))) as threads:
        results = dict(zip(distinct, threads.map(_answer, distinct)))
    return [results[request] for request in requests]


@functools.lru_cache(maxsize=8192)
def _remembered(request: bytes):
    return _shared_pool().ask(request)


def _answer(request: bytes):
    return _remembered(request) if len(request) < 4096 else _shared_pool().ask(request)


def _function(call: str):
    module, _, function = call.rpartition(".")
    return getattr(importlib.import_module(module), function)


def _result(request: dict) -> dict:
    # Ends this process from a thread of its own that needs neither the interpreter nor its lock.
    faulthandler.dump_traceback_later(request["budget_s"], exit=True)
    try:
        reply = {"value": _function(request["call"])(*request["row"])}
        json.dumps(reply)  # what JSON cannot hold is an error of the function, and no reason to die
        return reply
    except MemoryError:
        os._exit(1)
    except Exception as error:  # handed to the caller, who raises it
        return {"error": f"{request['call']}: {type(error).__name__}: {error}"}
    finally:
        faulthandler.cancel_dump_traceback_later()


def main() -> int:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, ValueError, OSError):  # not everywhere; the watchdog still holds
        pass
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with PYTHONSAFEPATH it is not there
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not be taken for a reply

    def reply(value) -> None:
        replies.write(json.dumps(value).encode() + b"\n")
        replies.flush()

    for line in sys.stdin.buffer:
        request, problem = json.loads(line), None
        try:
            _function(request["call"])
        except ImportError as error:
            problem = {"missing": str(error)}
        except Exception as error:  # a module may fail in any way
            problem = {"error": f"{request['call']}: {type(error).__name__}: {error}"}
        reply("begins")
        reply(problem or _result(request))
    return 0


if __name__ == "__main__":
    sys.exit(main())
