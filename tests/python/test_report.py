"""What the package says to the agent, beside a stand-in for it: never a wait of the program, and nothing lost in silence."""
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from agent_peer import wait_for
from case import PYTHON, Case

import muster
from muster import agent as agents
from muster import reporting, stopping
from muster.reporting import dropped


class Reports(Case):
    def test_a_report_is_a_line_with_its_numbers(self):
        peer = self.peer()
        muster.report(1, loss=2.5, lr=0.1, total_steps=10, metrics={"eval/accuracy": 0.5})
        muster.report(loss=1)
        wait_for("two reports", lambda: peer.of("step") and peer.of("metric"))
        self.assertEqual(peer.of("step"), [{"do": "step", "step": 1, "total_steps": 10, "loss": 2.5, "lr": 0.1, "metrics": {"eval/accuracy": 0.5}}])
        self.assertEqual(peer.of("metric"), [{"do": "metric", "metrics": {"loss": 1.0}}])
        self.assertEqual(peer.of("hello")[0]["protocol"], 1)
        self.assertEqual(peer.garbage, [])

    def test_numbers_that_json_lacks_are_texts(self):
        peer = self.peer()
        muster.report(1, loss=float("nan"), up=float("inf"), down=-float("inf"))
        line = wait_for("a step", lambda: peer.of("step"))[0]
        self.assertEqual((line["loss"], line["metrics"]), ("nan", {"up": "inf", "down": "-inf"}))

    def test_what_is_no_number_or_has_no_name_is_left_out_and_named_once(self):
        peer = self.peer()
        with self.assertLogs("muster", "WARNING") as logs:
            for step in (1, 2):
                muster.report(step, loss=None, name="text", metrics={"a b": 1, "x" * 64: 2, "fine": 3})
        wait_for("two steps", lambda: len(peer.of("step")) == 2)
        self.assertEqual([line["metrics"] for line in peer.of("step")], [{"fine": 3.0}] * 2)
        self.assertEqual(len(logs.output), 3, logs.output)

    def test_many_numbers_are_several_lines(self):
        peer = self.peer()
        muster.report(5, metrics={f"m{i}": i for i in range(150)})
        def all_of_them():
            found = {}
            for line in peer.of("step") + peer.of("metric"):
                self.assertLessEqual(len(line["metrics"]), 64)
                self.assertEqual(line["step"], 5)
                found.update(line["metrics"])
            return len(found) == 150
        wait_for("150 numbers", all_of_them)
        self.assertEqual(len(peer.of("step")), 1)

    def test_other_ranks_report_their_numbers_too(self):
        peer = self.peer(hello={"rank": 1, "world": 2})
        os.environ["RANK"] = "1"
        muster.report(3, loss=1.0)
        muster.report(accuracy=0.5)
        self.assertEqual(wait_for("a step", lambda: peer.of("step")), [{"do": "step", "step": 3, "loss": 1.0}])
        self.assertEqual(wait_for("a number", lambda: peer.of("metric")), [{"do": "metric", "metrics": {"accuracy": 0.5}}])

    def test_other_ranks_wait_for_a_number_on_a_device_once_a_second(self):
        class Device:
            type = "cuda"

        class Tensor:
            device, read = Device, 0

            def __float__(self):
                Tensor.read += 1
                return 2.0

        peer = self.peer(hello={"rank": 1, "world": 2})
        os.environ["RANK"] = "1"
        self.addCleanup(setattr, reporting, "DEVICE_S", reporting.DEVICE_S)
        reporting.DEVICE_S = 3600
        for step in range(1, 51):
            muster.report(step, loss=Tensor())
        self.assertEqual(len(wait_for("50 steps", lambda: len(peer.of("step")) == 50 and peer.of("step"))), 50)
        self.assertEqual(peer.of("step")[0], {"do": "step", "step": 1, "loss": 2.0})
        self.assertEqual(Tensor.read, 1)
        self.forget()
        self.peer()
        os.environ["RANK"] = "0"
        for step in range(51, 61):
            muster.report(step, loss=Tensor())
        self.assertEqual(Tensor.read, 11, "all numbers of rank 0 are the job's")

    def test_waiting_is_told_with_the_next_step_once_it_is_measured(self):
        peer = self.peer(hello={"rank": 1, "world": 2})
        muster.report(1)
        for _ in range(2):
            with muster.waiting():
                time.sleep(0.01)
        muster.report(2)
        muster.report(3)
        muster.report(4, waited_s=1.5)
        steps = wait_for("4 steps", lambda: len(peer.of("step")) == 4 and peer.of("step"))
        self.assertNotIn("waited_s", steps[0], "nothing was measured")
        self.assertGreaterEqual(steps[1]["waited_s"], 0.02)
        self.assertEqual([step["waited_s"] for step in steps[2:]], [0, 1.5])

    def test_progress_reports_what_the_loop_has_done(self):
        peer = self.peer()
        self.assertEqual(list(muster.progress([10, 20, 30], start=4)), [10, 20, 30])
        wait_for("the last step", lambda: peer.of("step") and peer.of("step")[-1]["step"] == 7)
        self.assertEqual({line["total_steps"] for line in peer.of("step")}, {7})

    def test_the_place_is_the_agents(self):
        self.peer(hello={"rank": 2, "world": 5})
        at = muster.place()
        self.assertEqual((at.rank, at.world, at.generation, at.job), (2, 5, 3, "j1"))


class WhereNobodyReads(Case):
    REPORTS, MEDIAN_S = 20000, 0.001

    def test_reports_to_a_deaf_agent_do_not_wait_and_are_counted(self):
        self.peer(deaf=True)
        took = []
        for step in range(self.REPORTS):
            start = time.perf_counter()
            muster.report(step, loss=1.0)
            took.append(time.perf_counter() - start)
        took.sort()
        self.assertLess(took[len(took) // 2], self.MEDIAN_S)
        self.assertGreater(dropped(), self.REPORTS // 2)
        self.assertLessEqual(agents.agent()._queued, agents.QUEUE_BYTES)

    def test_an_agent_that_ends_while_the_queue_is_full_ends_no_program(self):
        peer = self.peer(deaf=True)
        while not dropped():
            muster.report(1)
        peer.stop()
        for _ in range(10):
            muster.report(2)

    def test_the_socket_never_waits_also_after_the_agent_came_back(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        self.assertFalse(agents.agent()._socket.getblocking())
        self.assertTrue(fcntl.fcntl(agents.agent()._socket, fcntl.F_GETFL) & os.O_NONBLOCK)
        peer.stop()
        again = self.peer(path=peer.path)
        wait_for("a step after the agent came back", lambda: muster.report(2) or again.of("step"))
        self.assertTrue(fcntl.fcntl(agents.agent()._socket, fcntl.F_GETFL) & os.O_NONBLOCK)

    def test_a_report_does_not_wait_for_another_thread_or_what_a_signal_interrupted(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        with agents.agent()._lock:
            muster.report(2)  # as in a signal handler: the same thread holds the lock
            self.assertIs(muster.should_stop(), False)
            other = threading.Thread(target=muster.report, args=(3,))
            other.start()
            other.join(60)
            self.assertFalse(other.is_alive())
        muster.report(4)
        wait_for("all steps in order", lambda: [line["step"] for line in peer.of("step")] == [1, 2, 3, 4])

    def test_lines_that_wait_for_the_lock_are_bounded_and_counted(self):
        self.peer()
        with agents.agent()._lock:
            for step in range(agents.INBOX_LINES + 7):
                muster.report(step)
        self.assertEqual((len(agents.agent()._inbox), dropped()), (agents.INBOX_LINES, 7))

    def test_a_request_in_use_of_the_connection_ends_with_its_limit(self):
        self.peer()
        with agents.agent()._lock, self.assertRaises(muster.TimedOut):
            agents.agent().request({"do": "latest"}, 0.05)

    def test_a_warning_is_logged_without_the_lock(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        held = []
        handler = logging.Handler()
        handler.emit = lambda record: held.append(agents.agent()._lock.locked())
        logging.getLogger("muster").addHandler(handler)
        self.addCleanup(logging.getLogger("muster").removeHandler, handler)
        peer.event(error={"code": "RESOURCE_EXHAUSTED", "message": "too much"})
        wait_for("the warning", lambda: muster.should_stop() or held)
        self.assertEqual(held, [False])

    SWITCHES = textwrap.dedent("""
        import resource, sys, time
        import muster
        def waits():
            return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        begin = waits()
        time.sleep(0.01)
        counts = waits() > begin                       # whether this system counts them
        muster.report(0, loss=1.0)                     # connects
        while not muster.agent.agent().dropped:
            muster.report(0, loss=1.0)
        begin = waits()
        for step in range(20000):
            muster.report(step, loss=1.0)
        print(int(counts), waits() - begin, flush=True)
        import os
        os._exit(0)
    """)

    def test_the_kernel_counts_no_wait_where_the_socket_is_full(self):
        """Each call that waits gives the processor up by itself; losing it to another process counts elsewhere."""
        self.peer(deaf=True)
        done = subprocess.run([sys.executable, "-c", "import muster.agent\n" + self.SWITCHES], env={**os.environ, "PYTHONPATH": str(PYTHON)},
                              stdout=subprocess.PIPE, text=True, timeout=300, check=True)
        counts, waited = map(int, done.stdout.split())
        if not counts:
            self.skipTest("this system does not count the waits of a thread")
        self.assertLess(waited, 20, "of 20000 reports")  # a page that comes from disk is a wait, too

    def test_without_an_agent_it_is_tried_once_a_second(self):
        os.environ[agents.SOCKET_VARIABLE] = "/nowhere/at/all"
        for step in range(5000):
            muster.report(step)
        self.assertGreater(dropped(), 0)
        with self.assertRaises(muster.Unavailable):
            agents.agent().request({"do": "latest"}, 0.2)

    def test_a_long_line_is_dropped_and_counted(self):
        peer = self.peer()
        agents.agent().note({"do": "pause", "why": "x" * 40_000})
        muster.report(1)
        wait_for("the step", lambda: peer.of("step"))
        self.assertEqual((peer.of("pause"), peer.garbage, dropped()), ([], [], 1))

    def test_an_agent_that_comes_back_is_found_again(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        peer.stop()
        muster.report(2)
        muster.report(3)
        again = self.peer(path=peer.path)
        def reports():
            muster.report(4)
            return any(line["step"] == 4 for line in again.of("step"))
        wait_for("a step after the agent came back", reports)
        self.assertEqual(again.of("hello")[0]["protocol"], 1)
        self.assertEqual(again.garbage, [])

    def test_a_line_that_was_half_sent_is_whole_on_the_next_connection(self):
        peer = self.peer(deaf=True)
        muster.report(1)
        agents.agent()._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system's least, below a line
        for _ in range(1000):
            muster.report(1, metrics={f"a-long-name-that-makes-a-long-line-{i:020}": i for i in range(60)})
        self.assertGreater(agents.agent()._sent, 0)
        peer.stop()
        again = self.peer(path=peer.path)
        wait_for("the queue to be sent", lambda: muster.report(2) or any(line["step"] == 2 for line in again.of("step")))
        self.assertEqual(again.garbage, [])

    def test_garbage_of_the_agent_is_ignored(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        for connection in peer.connections:
            try:
                connection.sendall(b"no json\n[]\n{}\n{\"event\":7}\n{\"id\":\"x\"}\n{\"event\":\"stop\"}\n")
            except OSError:
                pass
        wait_for("the stop after it", muster.should_stop)

    def test_errors_of_notes_are_logged(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        with self.assertLogs("muster", "WARNING") as logs:
            peer.event(error={"code": "RESOURCE_EXHAUSTED", "message": "too much"})
            wait_for("the warning", lambda: muster.should_stop() or logs.output)
        self.assertIn("too much", logs.output[0])


class Forks(Case):
    def test_a_child_reports_on_a_connection_of_its_own(self):
        peer = self.peer()
        muster.report(1)
        wait_for("a step", lambda: peer.of("step"))
        pid = os.fork()
        if pid == 0:
            muster.report(2)
            agents.agent().close()
            os._exit(0)
        os.waitpid(pid, 0)
        muster.report(3)
        wait_for("all steps", lambda: {line["step"] for line in peer.of("step")} == {1, 2, 3})
        self.assertEqual(len(peer.of("hello")), 2)
        self.assertEqual(peer.garbage, [])

    ENDS = textwrap.dedent("""
        import muster, muster.agent
        muster.agent.CLOSE_S = 20
        step = 0
        while not muster.agent.agent().dropped and step < 100000:
            step += 1
            muster.report(step)
        print(step - 1, flush=True)
    """)

    def test_what_is_queued_at_the_end_of_a_process_arrives(self):
        peer = self.peer(deaf=True)
        child = subprocess.Popen([sys.executable, "-c", self.ENDS], env={**os.environ, "PYTHONPATH": str(PYTHON)}, stdout=subprocess.PIPE, text=True)
        last = int(child.stdout.readline())
        peer.listens.set()
        self.assertEqual(child.wait(60), 0)
        child.stdout.close()
        wait_for("the last step that was not dropped", lambda: any(line["step"] == last for line in peer.of("step")))


class Stops(Case):
    def test_an_event_is_a_request_to_stop(self):
        peer = self.peer()
        self.assertFalse(muster.should_stop())
        self.assertEqual(muster.grace_left(), float("inf"))
        wait_for("hello", lambda: peer.of("hello"))
        peer.event(event="stop", grace_s=30, reason="drained")
        wait_for("the stop", muster.should_stop)
        self.assertTrue(25 < muster.grace_left() <= 30)
        self.assertEqual(muster.stop_reason(), "drained")

    def test_a_process_that_starts_late_hears_it_at_once(self):
        self.peer(hello={"stop": True, "grace_s": 5, "reason": "cancelled"})
        wait_for("the stop", muster.should_stop)

    def test_sigterm_is_one_too_without_an_agent(self):
        before = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        stopping._watching = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.assertFalse(muster.should_stop())
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertTrue(muster.should_stop())

    def test_a_handler_of_the_program_stays(self):
        before = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        stopping._watching = False
        mine = lambda *_: None  # noqa: E731
        signal.signal(signal.SIGTERM, mine)
        muster.should_stop()
        self.assertIs(signal.getsignal(signal.SIGTERM), mine)


class TheBoard(Case):
    def test_what_one_puts_another_gets(self):
        self.peer()
        self.assertIsNone(muster.board.get("a"))
        muster.board.put("a", "1")
        self.assertEqual(muster.board.get("a", wait_s=5), "1")
        with self.assertRaises(ValueError):
            muster.board.put("k" * 257, "")
        with self.assertRaises(ValueError):
            muster.board.put("k", "v" * 16385)

    def test_a_refusal_is_an_exception_with_the_agents_sentence(self):
        self.peer(answers={"put": {"error": {"code": "ABORTED", "message": "generation 3 is over", "hint": "join"}}})
        with self.assertRaisesRegex(muster.Aborted, "generation 3 is over: join"):
            muster.board.put("a", "1")


class Stacks(Case):
    HANGS = textwrap.dedent("""
        import muster, time
        def the_place_where_it_hangs():
            muster.report(1)
            time.sleep(60)
        the_place_where_it_hangs()
    """)

    def test_a_signal_writes_where_each_thread_is(self):
        peer = self.peer()
        child = subprocess.Popen([sys.executable, "-c", self.HANGS], env={**os.environ, "PYTHONPATH": str(PYTHON)})
        try:
            wait_for("a step", lambda: peer.of("step") and peer.of("stacks"))
            child.send_signal(getattr(signal, "SIG" + peer.of("stacks")[0]["signal"]))
            wait_for("the stack", lambda: b"the_place_where_it_hangs" in peer.stacks)
        finally:
            child.kill()
            child.wait()

    DEEP = textwrap.dedent("""
        import muster, muster.stacks, signal, sys, threading, time
        def the_place_of_one_thread(depth):
            if depth:
                the_place_of_one_thread(depth - 1)
            there.release()
            time.sleep(600)
        there = threading.Semaphore(0)
        for _ in range(int(sys.argv[1])):
            threading.Thread(target=the_place_of_one_thread, args=(90,), daemon=True).start()
            there.acquire()
        muster.report(1)
        while sys.argv[2] == "pipe" and muster.stacks._pipe < 0:
            muster.report(1)
        signal.raise_signal(signal.SIGUSR2)
        muster.report(2)
        muster.agent.agent().request({"do": "done"})
        time.sleep(600)
    """)

    def deep(self, threads, by):
        child = subprocess.Popen([sys.executable, "-c", self.DEEP, str(threads), by], env={**os.environ, "PYTHONPATH": str(PYTHON)})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)

    def test_the_agents_pipe_has_room_for_64_kib_of_small_pieces(self):
        """It is read only after the dump. A socket's buffer would hold a tenth of it."""
        peer = self.peer(pipes=True, reads_stacks=False)
        self.deep(8, "pipe")
        wait_for("the step after the dump", lambda: peer.of("done"))
        text = os.read(peer.reading_ends[0], 1 << 20).decode()
        self.assertEqual(text.count("in the_place_of_one_thread"), 8 * 91)
        self.assertIn("Current thread", text)

    def test_a_dump_that_nobody_reads_does_not_block_the_program(self):
        for by in ("pipe", "connection"):
            with self.subTest(by=by):
                peer = self.peer(pipes=by == "pipe", reads_stacks=False)
                self.deep(40, by)
                wait_for("the step after the dump", lambda: 2 in [step["step"] for step in peer.of("step")])


class OutsideOfMuster(Case):
    def test_everything_does_nothing_and_is_logged(self):
        with self.assertLogs("muster", "INFO") as logs:
            muster.report(7, loss=0.5)
        self.assertEqual(logs.output, ["INFO:muster:step 7 loss=0.5"])
        self.assertIsNone(muster.place())
        muster.pause(5)
        muster.done()
        muster.board.put("a", "b")
        self.assertEqual(muster.board.get("a"), "b")
        self.assertEqual(list(muster.progress(range(3))), [0, 1, 2])

    def test_the_import_costs_less_than_20_ms(self):
        code = "import sys, time; t = time.perf_counter(); import muster; print(time.perf_counter() - t, len(sys.modules))"
        took = []
        for _ in range(5):
            out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(PYTHON)}, capture_output=True, text=True, check=True).stdout
            took.append(float(out.split()[0]))
        logging.getLogger("test").info("import muster: %s", took)
        self.assertLess(min(took), 0.02)

    def test_every_name_is_there(self):
        for name in muster.__all__:
            if muster._HOMES[name] != "reforming":  # which imports torch
                self.assertIsNotNone(getattr(muster, name), name)
        with self.assertRaises(AttributeError):
            muster.nothing
        self.assertTrue(set(muster.__all__) <= set(dir(muster)))


if __name__ == "__main__":
    unittest.main()
