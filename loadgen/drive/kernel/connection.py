"""One connection: sends a request, stamps and collects its answer, and knows whether it can serve again."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable
from functools import partial

import httpcore

from loadgen.clock import now_ns
from loadgen.drive.kernel.answer import Answer
from loadgen.drive.kernel.aside import ENDED, LATER
from loadgen.drive.kernel.job import Job
from loadgen.drive.kernel.poller import Poller
from loadgen.drive.kernel.side_reader import SideReader, fault_of
from loadgen.drive.kernel.stamps import ANCILLARY_BYTES, Stamper
from loadgen.drive.kernel.tls import Tls
from loadgen.drive.transport import WireLimits

_READ_BYTES = 64 * 1024
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
#: timers have a grain of 1 ms: a shorter wait would spin
_TIMER_S = 0.001

_NOTHING = memoryview(b"")


class Connection:
    """Serves one job at a time. `on_idle` and `on_closed` tell the pool; a closed connection stays closed.

    Whatever is odd closes it: an error, a cut, bytes or an end that nobody asked for. No task waits on it;
    one timer per job looks after its deadlines.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: Tls | None,
        poller: Poller,
        stamper: Stamper | None,
        byte_idle_ns: int | None,
        limits: WireLimits,
        on_idle: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        """`stamper` is None where the kernel gives no stamps."""
        self.idle_since_ns = now_ns()
        self.open = True
        self.stamper = stamper
        self._socket = sock
        self._recvmsg = sock.recvmsg
        self._poller = poller
        self._tls = tls
        self._plain_stamper = stamper if tls is None else None
        self._byte_idle_ns = byte_idle_ns
        self._limits = limits
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._job: Job | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._progress_ns = 0
        self._mask = _IN
        self._later = False  # its answer has begun, others come first
        reader, plain = poller.reader, self._plain_stamper
        self._side = SideReader(reader, sock.fileno(), plain) if reader is not None and plain is not None else None
        self._fresh = False  # its answer has not been offered to the reader
        self._deaf = False  # the peer takes no more of the request; it may still have answered
        poller.register(sock.fileno(), _IN, self._on_events)

    def start(self, job: Job) -> None:
        """Send the request, as far as the socket takes it now. `job.ended` may be set before this returns."""
        assert self._job is None
        assert self.open
        job.answer = Answer(job.exchange, self._limits, job.method, self.stamper is not None)
        self._job = job
        self._fresh = self._side is not None
        self._progress_ns = now_ns()
        self._arm(job)
        self._guard(self._begin)

    def abandon(self, job: Job) -> None:
        """The job was cancelled: close the connection. Nothing happens if the job has ended."""
        if self._job is job:
            self._job = None
            self._settle(job)
            self.close()

    def abort(self, fault: Exception) -> None:
        """End whatever it does, and close."""
        if self._job is not None:
            self._end(fault)
        self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._poller.unregister(self._socket.fileno())
            self._socket.close()
            self._on_closed(self)

    def usable(self) -> bool:
        """Whether an idle connection is still silent and open; it is closed otherwise."""
        self._guard(self._read_idle)
        return self.open

    # ---------------------------------------------------------------- events

    def _on_events(self, events: int) -> None:
        if events < 0:
            self._guard(partial(self._attend, -events))
            return
        if events & ~_OUT:
            if self._job is None:
                self._guard(self._read_idle)
            elif events == _IN and self._plain_stamper is not None and (self._side is None or not self._side.on):
                self._read_plain(self._job, self._plain_stamper)
            else:
                self._guard(self._read)
        if events & _OUT and self._job is not None:
            self._guard(self._flush)

    def _read_plain(self, job: Job, stamper: Stamper) -> None:
        """`_read` of what nearly every chunk is, without what it need not pass: no TLS, more data or the end."""
        try:
            data, ancillary, _flags, _address = self._recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            if data:
                answer = job.answer
                self._progress_ns = answer.feed(data, stamper.kernel_ns(ancillary))
                if answer.done:
                    self._end(None)
                elif self._fresh and job.exchange.status is not None:
                    self._hand_over(job, data)
                elif self._poller.crowded and len(job.exchange.piece_ns) > 1:
                    self._postpone()
                return
        except (BlockingIOError, InterruptedError):
            return
        except Exception as fault:
            self._end(_as_fault(fault))
            return
        self._guard(self._ended_by_peer)

    def _postpone(self) -> None:
        """A role's and the first token's pieces have been read."""
        if self._mask == _IN and not self._later:
            self._later = True
            self._poller.postpone(self._socket.fileno(), _IN)

    def _guard(self, step: Callable[[], None]) -> None:
        """A fault ends this job only, also where it is our own."""
        try:
            step()
        except (BlockingIOError, InterruptedError):
            pass
        except Exception as fault:
            self._end(_as_fault(fault))

    def _read(self) -> None:
        if self._side is not None and self._side.on:
            self._attend(self._side.read())
            return
        data, ancillary, _flags, _address = self._recvmsg(_READ_BYTES, ANCILLARY_BYTES)
        job = self._job
        assert job is not None
        answer, ended = job.answer, not data
        kernel_ns = self.stamper.kernel_ns(ancillary) if data and self.stamper is not None else None
        if self._tls is not None and data:
            self._progress_ns = now_ns()
            data, ended = self._tls.decrypt(data)
            self._say(self._tls.to_send())
        if data:
            self._progress_ns = answer.feed(data, kernel_ns)
        if ended:
            self._ended_by_peer()
        elif answer.done:
            self._end(None)

    def _ended_by_peer(self) -> None:
        job = self._job
        assert job is not None
        if not job.answer.done:
            job.answer.eof()
        job.answer.keep_alive = False
        self._end(None)

    def _read_idle(self) -> None:
        """An idle connection may bring a new TLS ticket; anything else closes it."""
        data = self._socket.recv(_READ_BYTES)
        if data and self._tls is not None:
            plain, ended = self._tls.decrypt(data)
            self._say(self._tls.to_send())
            if not plain and not ended:
                return
        self.close()

    # ---------------------------------------------------------------- reads by the C reader

    def _hand_over(self, job: Job, read: bytes) -> None:
        """After the read that ended the head: let the reader make the others, if it can follow."""
        self._fresh = False
        if self._side is not None and not job.left and self._mask == _IN:
            self._side.begin(job.answer, read)
            job.exchange.refresh = self._refresh if self._side.on else None

    def _attend(self, why: int) -> None:
        """The reader wants Python; or, `why` = 0, it is asked what it has."""
        job, side = self._job, self._side
        if job is None or side is None or not side.on:
            return
        if why == LATER:
            self._postpone()
            return
        side.give(job.answer, why)
        self._progress_ns = max(self._progress_ns, job.answer.last_ns)
        if job.answer.done:
            self._end(None)
        elif why == ENDED:
            self._ended_by_peer()
        elif fault := fault_of(why):
            raise fault

    def _refresh(self) -> None:
        self._guard(partial(self._attend, 0))

    # ---------------------------------------------------------------- sending

    def _begin(self) -> None:
        job = self._job
        assert job is not None
        if self._tls is not None:
            job.left = memoryview(self._tls.encrypt(bytes(job.left)))
        self._flush()

    def _flush(self) -> None:
        """Hand over what is left of the request. `sent_ns` is just before the call that takes its last byte."""
        job = self._job
        assert job is not None
        while job.left:
            at_ns = now_ns()
            try:
                taken = self._socket.send(job.left)
            except BlockingIOError:
                self._listen(_IN | _OUT)
                return
            except ConnectionError:
                self._deaf = True
                job.left = _NOTHING
                break
            self._progress_ns = at_ns
            job.left = job.left[taken:] if taken < len(job.left) else _NOTHING
            if not job.left and job.exchange.sent_ns is None:
                job.exchange.sent_ns = at_ns
        self._listen(_IN)

    def _say(self, data: bytes) -> None:
        """What TLS itself has to tell the peer: after what is left of the request, or at once."""
        if not data:
            return
        if self._job is not None and self._job.left:
            self._job.left = memoryview(bytes(self._job.left) + data)
        else:
            try:
                taken = self._socket.send(data)
            except BlockingIOError:
                taken = 0
            if taken < len(data):
                raise ConnectionError("the peer does not take what TLS has to say")

    def _listen(self, mask: int) -> None:
        if mask != self._mask:
            self._mask = mask
            self._poller.modify(self._socket.fileno(), mask)

    # ---------------------------------------------------------------- the end

    def _arm(self, job: Job) -> None:
        """A timer that fires too early, one of an earlier job, finds nothing and is set anew: that is rare, and
        setting one for each job is not cheap."""
        due_ns = job.total_ns
        if self._byte_idle_ns is not None:
            idle_ns = self._progress_ns + self._byte_idle_ns
            due_ns = idle_ns if due_ns is None else min(due_ns, idle_ns)
        if due_ns is None or (self._timer is not None and self._timer_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = self._poller.loop.call_later(max(_TIMER_S, (due_ns - now_ns()) / 1e9), self._look)

    def _look(self) -> None:
        """A deadline may have passed. What the kernel has got in time counts, though the loop was late."""
        self._timer = None
        if self._job is None:
            return
        self._guard(self._read)
        job = self._job
        if job is None:
            return
        at_ns, idle_ns = now_ns(), self._byte_idle_ns
        if job.total_ns is not None and at_ns >= job.total_ns:
            self._end(TimeoutError("the request took longer than its total deadline"))
        elif idle_ns is not None and at_ns - self._progress_ns >= idle_ns:
            self._end(httpcore.ReadTimeout(f"no byte for {idle_ns / 1e9:g} s"))
        else:
            self._arm(job)

    def _end(self, fault: Exception | None) -> None:
        job, self._job = self._job, None
        if job is None:
            self.close()
            return
        job.exchange.end_ns = job.answer.last_ns if fault is None else now_ns()
        reusable = fault is None and job.answer.keep_alive and not job.left and not self._deaf
        self._settle(job)
        if reusable:
            if self._later:
                self._later = False
                self._poller.prefer(self._socket.fileno(), self._mask)
            self.idle_since_ns = now_ns()
            self._on_idle(self)
        else:
            self.close()
        if not job.ended.done():
            job.ended.set_result(fault)

    def _settle(self, job: Job) -> None:
        if self._side is not None and self._side.on:
            with contextlib.suppress(Exception):  # what has ended the job stands
                self._side.give(job.answer)
            self._side.end()
        job.exchange.refresh = None
        job.peer_closed = job.answer.closed
        job.answer.close()


def _as_fault(error: Exception) -> Exception:
    """What the socket or TLS says (ssl.SSLError is an OSError), as httpx has it."""
    if not isinstance(error, OSError):
        return error
    fault = httpcore.ReadError(str(error))
    fault.__cause__ = error
    return fault
