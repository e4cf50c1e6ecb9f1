from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.errors import InterruptedByUser, ProcessError
from pgdyno.process import cleanup, signals
from pgdyno.process.child import UserIds, run, start
from pgdyno.process.processes import ProcessIdentity

needs_root = needs.ROOT
needs_linux = needs.LINUX

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def gone(identity: ProcessIdentity, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while identity.is_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def orphan_of_a_killed_parent(user: str | None) -> ProcessIdentity:
    """Start a Python that starts a `sleep`, kill that Python with SIGKILL, return the sleep."""
    script = (
        "import sys\n"
        "from pgdyno.process.child import UserIds, start\n"
        f"user = UserIds.of({user!r}) if {user!r} else None\n"
        "child = start(['/bin/sleep', '600'], user=user, cwd='/')\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        identity = ProcessIdentity.of(int(parent.stdout.readline()))
        assert identity is not None
        parent.kill()
    return identity


def test_a_child_runs_to_its_end_and_its_output_is_kept() -> None:
    completed = run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=10)
    assert (completed.returncode, completed.stdout, completed.stderr) == (3, "out\n", "err\n")


def test_only_the_last_mebibyte_of_a_talkative_child_is_kept() -> None:
    completed = run(["/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"], timeout_s=20)
    assert len(completed.stdout) == 1 << 20


def test_an_error_names_a_missing_program() -> None:
    with pytest.raises(ProcessError, match="/nowhere/at/all cannot be started"):
        start(["/nowhere/at/all"])


def test_a_child_that_takes_too_long_is_ended_before_the_error() -> None:
    with pytest.raises(ProcessError, match="did not end within"):
        run(["/bin/sleep", "600"], timeout_s=0.05)
    assert not [name for name in cleanup.pending() if "sleep" in name]


@needs_linux
@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["obedient", "stubborn"])
def test_processes_of_a_child_end_with_it_after_a_timeout(tmp_path: Path, trap: str) -> None:
    kept = tmp_path / "pid"
    command = f"{trap}sleep 600 & echo $! > {kept}; wait; wait"
    with pytest.raises(ProcessError, match="did not end within"):
        run(["/bin/sh", "-c", command], timeout_s=1)
    identity = ProcessIdentity.of(int(kept.read_text()))
    assert identity is None or gone(identity)


def test_processes_that_a_child_started_outlive_its_normal_end(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    run(["/bin/sh", "-c", f"sleep 600 & echo $! > {kept}"], timeout_s=20)
    pid = int(kept.read_text())
    identity = ProcessIdentity.of(pid)
    assert identity is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(identity)


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_time() -> None:
    child = start(["/bin/sh", "-c", STUBBORN], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    assert child.terminate(grace_s=0.05) == -signal.SIGKILL
    child.close_pipes()


def test_ending_a_child_twice_returns_the_same_exit_code() -> None:
    child = start(["/bin/sh", "-c", "exit 7"])
    assert child.wait(10) == 7
    assert child.terminate() == 7
    assert child.poll() == 7


def test_a_password_never_gets_into_the_arguments() -> None:
    with pytest.raises(AssertionError) as caught:
        start(["/bin/echo", "postgresql://me:sesame@host/db"])
    assert "sesame" not in str(caught.value)
    with pytest.raises(AssertionError):
        start(["/bin/echo", "host=x password=sesame"])


def test_a_child_that_must_not_outlive_us_is_started_by_the_main_thread_only() -> None:
    seen: list[BaseException] = []

    def other_thread() -> None:
        try:
            start(["/bin/true"])
        except AssertionError as error:
            seen.append(error)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert "main thread" in str(seen[0])


def test_a_child_has_a_separate_session_so_ctrl_c_reaches_only_pgdyno() -> None:
    with start(["/bin/sleep", "600"]) as child:
        assert os.getsid(child.pid) == child.pid != os.getsid(0)


def test_handing_over_to_another_program_undoes_what_is_registered_first() -> None:
    script = (
        "from pgdyno.process import child, cleanup\n"
        "cleanup.register('folder', lambda: print('removed'))\n"
        "child.become(['/bin/echo', 'hand over'])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "removed\nhand over\n"


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("number", signals.HANDLED)
def test_a_signal_that_came_before_handing_over_is_not_lost(number: signal.Signals) -> None:
    script = (
        "import os\n"
        "from pgdyno.process import child, signals\n"
        "with signals.handled():\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    child.become(['/bin/echo', 'hand over'])\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (said.stdout, said.returncode) == ("", 1)
    assert f"Interrupted by {number.name}." in said.stderr


def test_a_program_that_was_handed_over_to_is_ended_by_signals_again() -> None:
    script = (
        "from pgdyno.process import child, signals\n"
        "with signals.handled():\n"
        "    child.become(['/bin/sh', '-c', 'kill -INT $$; echo alive'])\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (said.stdout, said.returncode) == ("", -signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_child_hears_signals_that_a_shell_let_its_parent_ignore(number: signal.Signals) -> None:
    script = (
        "import signal\n"
        "from pgdyno.process.child import start\n"
        f"signal.signal({int(number)}, signal.SIG_IGN)\n"
        "child = start(['/bin/sleep', '600'])\n"
        f"child.send_signal(signal.Signals({int(number)}))\n"
        "print(child.ends_within(60.0), child.poll())\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout == f"True {-number}\n", said.stderr


@needs_linux
def test_a_child_ends_when_its_parent_is_killed() -> None:
    assert gone(orphan_of_a_killed_parent(None))


@needs_linux
@needs_root
def test_a_child_of_another_user_ends_when_its_parent_is_killed() -> None:
    assert gone(orphan_of_a_killed_parent("nobody"))


@needs_root
def test_a_child_becomes_the_user_wholly() -> None:
    completed = run(
        ["/bin/sh", "-c", "id -u; id -g; id -G"], user=UserIds.of("nobody"), cwd="/", timeout_s=10
    )
    nobody = UserIds.of("nobody")
    uid, gid, groups = completed.stdout.splitlines()
    assert (int(uid), int(gid)) == (nobody.uid, nobody.gid)
    assert {int(group) for group in groups.split()} == set(nobody.groups)


def test_a_signal_ends_the_wait_and_the_child_of_a_run() -> None:
    with signals.handled():
        # Begun where the signal is handled: before, it would end the tests themselves.
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(InterruptedByUser):
            run(["/bin/sleep", "600"], timeout_s=300)
    assert not [name for name in cleanup.pending() if "sleep" in name]


def test_lines_of_a_child_come_whole_and_a_signal_ends_the_wait_for_more() -> None:
    script = "printf 'one\\nt'; sleep 0.2; printf 'wo\\nend'; exec sleep 600"
    asked = ["/bin/sh", "-c", script]
    with signals.handled(), start(asked, stdout=subprocess.PIPE) as talkative:
        lines = talkative.lines()
        assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(InterruptedByUser):
            next(lines)
    with start(["/bin/echo", "-n", "end"], stdout=subprocess.PIPE) as ended:
        assert list(ended.lines()) == [b"end"]


def test_clean_up_runs_newest_first_and_survives_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup, "_pending", {})  # Not what other tests still need.
    order: list[str] = []

    def fails() -> None:
        order.append("second")
        raise OSError("disk gone")

    cleanup.register("first", lambda: order.append("first"))
    cleanup.register("second", fails)
    forgotten = cleanup.register("forgotten", lambda: order.append("forgotten"))
    cleanup.forget(forgotten)
    assert cleanup.run_all() == ["second: disk gone"]
    assert order == ["second", "first"]
    assert cleanup.pending() == ()


def test_clean_up_after_a_mark_leaves_earlier_entries_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup, "_pending", {})
    order: list[str] = []
    cleanup.register("earlier", lambda: order.append("earlier"))
    begun = cleanup.mark()
    cleanup.register("later", lambda: order.append("later"))
    assert cleanup.run_all(since=begun) == []
    assert (order, cleanup.pending()) == (["later"], ("earlier",))


def test_a_process_is_known_by_its_start_not_by_its_pid_alone() -> None:
    with start(["/bin/sleep", "600"]) as child:
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        assert identity.is_running()
        other = ProcessIdentity(child.pid, "another boot:1")
        assert not other.end(grace_s=0.1, signal_number=signal.SIGTERM)
        assert child.poll() is None
        assert identity.end(grace_s=10, signal_number=signal.SIGTERM)
    assert not identity.is_running()


def test_an_unused_pid_has_no_identity() -> None:
    pid_max = (
        int(Path("/proc/sys/kernel/pid_max").read_text()) if sys.platform == "linux" else 99999
    )
    assert ProcessIdentity.of(pid_max + 1) is None


def test_a_child_does_not_get_the_password_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3same-open")
    assert "s3same" not in run(["env"], timeout_s=10).stdout
