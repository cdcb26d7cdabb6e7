"""The attack corpus in `data/attacks/`: a folder per case with candidate and tests, `manifest.json` with the verdict.

`@NAME@` in a candidate stands for something outside of the sandbox that it tries to reach; it is really there."""

import json
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

ATTACKS = Path(__file__).parent / "data" / "attacks"
MANIFEST = json.loads((ATTACKS / "manifest.json").read_text())


class Targets:
    """What the leak cases look for outside: a secret, a file of another candidate, servers, this process."""

    def __init__(self, folder: Path):
        folder.mkdir(exist_ok=True)
        self.other = folder
        (folder / "candidate.py").write_text("# SIBLING\n")
        folder.chmod(0o777)
        os.environ["GRPO_SECRET_TARGET"] = "x"
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.number = self.udp.getsockname()[1]
        self.abstract.bind(f"\0sbx-{self.number}")
        self.abstract.listen(8)
        threading.Thread(target=self._answer_udp, daemon=True).start()
        threading.Thread(target=self._answer_abstract, daemon=True).start()

    def _answer_udp(self):
        while True:
            _, address = self.udp.recvfrom(16)
            self.udp.sendto(b"KEY", address)

    def _answer_abstract(self):
        while True:
            connection, _ = self.abstract.accept()
            connection.send(b"KEY")
            connection.close()

    def fill(self, text: str) -> str:
        values = {"SECRETENV": "GRPO_SECRET_TARGET", "OTHER": self.other, "HARNESS": os.getpid()}
        for name, value in {**values, "PORT": self.number, "UDP": self.number}.items():
            text = text.replace(f"@{name}@", str(value))
        return text


def read_attack(name: str, targets: Targets) -> tuple[str, str]:
    source = ATTACKS / name / "candidate.py"
    if source.exists():
        text = source.read_bytes().decode("utf-8", "surrogateescape")
    else:
        text = eval((ATTACKS / name / "candidate.gen").read_text())
    return targets.fill(text), (ATTACKS / name / "test_candidate.py").read_text()


def passes_in_one_process(box, source: str, tests: str, plugins: bool = True) -> bool:
    """`python -m pytest` in a sandbox of its own, the verdict from its exit status: what a liar can forge."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        Path(folder, "candidate.py").write_text(source)
        Path(folder, "test_candidate.py").write_text(tests)
        words = [word.replace("{uid}", "61099") for word in box.command]
        at = words.index("--remount-ro")
        words[at:at] = ["--perms", "1777", "--tmpfs", "/tmp/job"]
        for name in ("candidate.py", "test_candidate.py"):
            words[at + 4 : at + 4] = ["--ro-bind", str(Path(folder, name)), f"/tmp/job/{name}"]
        code = f"import os, sys; os.chdir('/tmp/job'); sys.path[:0] = ['/tmp/job', *{list(box.packages)}]\n"
        code += "" if plugins else "os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'\n"
        code += "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            "/tmp/job",
            "/tmp/job/test_candidate.py",
        ]
        command = [*words, box.python, "-I", "-c", code, *options]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
