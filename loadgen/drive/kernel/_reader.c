/* The sockets of many streams, read without Python: one recvmsg and its stamp each, put aside (_stream.c).
 *
 * A stream is attached once its head has been read. No call here calls Python code or releases the GIL: all calls of
 * one Reader are serial. Times are ns; stamps are CLOCK_REALTIME less the offset that the caller gives, so CLOCK_MONOTONIC.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_stream.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_EVENTS 1024
#define MAX_FD (1 << 22)

typedef struct {
    PyObject_HEAD
    Stream **streams; /* by descriptor */
    size_t room;
    int timer; /* timerfd, or -1 */
    struct epoll_event events[MAX_EVENTS];
    unsigned char scratch[READ_BYTES];
} Reader;

static Stream *find(Reader *self, long fd)
{
    return fd >= 0 && (size_t)fd < self->room ? self->streams[fd] : NULL;
}

static Stream *find_or_raise(Reader *self, long fd)
{
    Stream *s = find(self, fd);
    if (s == NULL)
        PyErr_Format(PyExc_KeyError, "descriptor %ld is not attached", fd);
    return s;
}

/* ---------------------------------------------------------------- Python's side */

PyDoc_STRVAR(attach_doc,
"attach(fd, framing, left, tail, body, max_body, last_ns) -> bool\n\n"
"Keep aside what `fd` brings from now on. `left`: bytes that a SIZED body still lacks. `tail`: what came of a CHUNKED\n"
"body with its head. `body`: bytes of body known; beyond `max_body` Python is wanted. `last_ns`: the newest stamp.\n"
"False, and nothing is attached, where the tail is not plain, brings the end, or does not make that body.");

static PyObject *reader_attach(Reader *self, PyObject *args)
{
    int fd, framing;
    long long left, body, max_body, last_ns;
    Py_buffer tail;
    Stream *s;
    size_t old = self->room;
    if (!PyArg_ParseTuple(args, "iiLy*LLL", &fd, &framing, &left, &tail, &body, &max_body, &last_ns))
        return NULL;
    if (fd < 0 || fd >= MAX_FD || framing < CHUNKED || framing > OPEN || left < 0 || body < 0 || find(self, fd)) {
        PyBuffer_Release(&tail);
        PyErr_Format(PyExc_ValueError, "cannot attach descriptor %d", fd);
        return NULL;
    }
    s = PyMem_Calloc(1, sizeof *s);
    if (s == NULL || !stream_reserve((void **)&self->streams, &self->room, 0, (size_t)fd + 1, sizeof *self->streams, 64)) {
        PyMem_Free(s);
        PyBuffer_Release(&tail);
        return PyErr_NoMemory();
    }
    if (self->room > old)
        memset(self->streams + old, 0, (self->room - old) * sizeof *self->streams);
    s->fd = fd;
    s->framing = framing;
    s->left = framing == SIZED ? (uint64_t)left : 0;
    s->max_body = max_body;
    s->last_ns = last_ns;
    if (framing != CHUNKED)
        s->body = body;
    if ((framing == CHUNKED && stream_follow_chunks(s, tail.buf, (size_t)tail.len) != QUIET) || s->body != body) {
        PyBuffer_Release(&tail);
        stream_free(s);
        Py_RETURN_FALSE;
    }
    PyBuffer_Release(&tail);
    self->streams[fd] = s;
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(detach_doc, "detach(fd)\n\nForget it, with all that is aside. Twice does no harm.");

static PyObject *reader_detach(Reader *self, PyObject *arg)
{
    long fd = PyLong_AsLong(arg);
    Stream *s;
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    s = find(self, fd);
    if (s != NULL) {
        self->streams[fd] = NULL;
        stream_free(s);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(take_doc,
"take(fd) -> (raw, reads, piece_ns, piece_end, body, last_ns)\n\n"
"What is aside, which then is no longer. `reads`: (stamp, bytes) of every read, `piece_ns` and `piece_end` as of an\n"
"Exchange, all int64 in native order; a stamp of NO_STAMP did not come. `body`: its length after all of it.");

static PyObject *reader_take(Reader *self, PyObject *arg)
{
    long fd = PyLong_AsLong(arg);
    Stream *s;
    PyObject *raw, *reads, *ns, *ends, *found = NULL;
    int64_t *to_ns, *to_end;
    size_t i;
    if ((fd == -1 && PyErr_Occurred()) || (s = find_or_raise(self, fd)) == NULL)
        return NULL;
    raw = PyBytes_FromStringAndSize((char *)s->raw, (Py_ssize_t)s->raw_len);
    reads = PyBytes_FromStringAndSize((char *)s->reads, (Py_ssize_t)(s->reads_len * sizeof(Read)));
    ns = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(s->pieces_len * sizeof(int64_t)));
    ends = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(s->pieces_len * sizeof(int64_t)));
    if (raw != NULL && reads != NULL && ns != NULL && ends != NULL) {
        to_ns = (int64_t *)PyBytes_AS_STRING(ns);
        to_end = (int64_t *)PyBytes_AS_STRING(ends);
        for (i = 0; i < s->pieces_len; i++) {
            memcpy(to_ns + i, &s->pieces[i].ns, sizeof(int64_t));
            memcpy(to_end + i, &s->pieces[i].end, sizeof(int64_t));
        }
        found = Py_BuildValue("(OOOOLL)", raw, reads, ns, ends, (long long)s->body, (long long)s->last_ns);
    }
    Py_XDECREF(raw);
    Py_XDECREF(reads);
    Py_XDECREF(ns);
    Py_XDECREF(ends);
    if (found != NULL && (s = find(self, fd)) != NULL) /* a finalizer may have run, and detached it */
        stream_empty(s);
    return found;
}

PyDoc_STRVAR(read_doc,
"read(fd, offset_ns, uncertainty_ns) -> int\n\nOne read of an attached stream: why it wants Python, QUIET if it does not.");

static PyObject *reader_read(Reader *self, PyObject *args)
{
    int fd;
    long long offset_ns, uncertainty_ns;
    Stream *s;
    if (!PyArg_ParseTuple(args, "iLL", &fd, &offset_ns, &uncertainty_ns) || (s = find_or_raise(self, fd)) == NULL)
        return NULL;
    return PyLong_FromLong(stream_read(s, self->scratch, offset_ns, uncertainty_ns));
}

PyDoc_STRVAR(put_doc, "put(fd, data, ns) -> int\n\nAs `read`, of these bytes instead of the socket's: for tests.");

static PyObject *reader_put(Reader *self, PyObject *args)
{
    int fd, why;
    long long ns;
    Py_buffer data;
    Stream *s;
    if (!PyArg_ParseTuple(args, "iy*L", &fd, &data, &ns))
        return NULL;
    s = find_or_raise(self, fd);
    why = s == NULL ? QUIET : stream_keep(s, data.buf, (size_t)data.len, ns);
    PyBuffer_Release(&data);
    return s == NULL ? NULL : PyLong_FromLong(why);
}

/* Append (fd, events) to the list, which is made at the first. */
static int tell(PyObject **rest, int fd, long events)
{
    PyObject *one;
    int failed;
    if (*rest == NULL && (*rest = PyList_New(0)) == NULL)
        return 0;
    if ((one = Py_BuildValue("(il)", fd, events)) == NULL)
        return 0;
    failed = PyList_Append(*rest, one);
    Py_DECREF(one);
    return !failed;
}

PyDoc_STRVAR(serve_doc,
"serve(epoll_fd, most, offset_ns, uncertainty_ns, spread) -> (ready, read, rest)\n\n"
"Look at most so many ready descriptors, and read once from each that is attached; `read`: how many were. `rest`: None,\n"
"or (fd, events) of the others, as epoll has it, and (fd, -why) of the attached that want Python. `spread`: those\n"
"whose answer has begun are told once, as LATER.");

static PyObject *reader_serve(Reader *self, PyObject *args)
{
    int epoll_fd, most, spread, ready, i, own = 0;
    long long offset_ns, uncertainty_ns;
    PyObject *rest = NULL, *found;
    if (!PyArg_ParseTuple(args, "iiLLp", &epoll_fd, &most, &offset_ns, &uncertainty_ns, &spread))
        return NULL;
    ready = epoll_wait(epoll_fd, self->events, most < 1 ? 1 : most > MAX_EVENTS ? MAX_EVENTS : most, 0);
    if (ready < 0) {
        if (errno != EINTR)
            return PyErr_SetFromErrno(PyExc_OSError);
        ready = 0;
    }
    for (i = 0; i < ready; i++) {
        int fd = self->events[i].data.fd;
        long events = (long)self->events[i].events;
        Stream *s = find(self, fd);
        if (s != NULL && events == EPOLLIN) {
            own++;
            events = -(long)stream_read(s, self->scratch, offset_ns, uncertainty_ns);
            if (events == QUIET && spread && !s->told_later && s->pieces_before + s->pieces_len > 1) {
                s->told_later = 1;
                events = -LATER;
            }
        }
        if (events != QUIET && !tell(&rest, fd, events)) {
            Py_XDECREF(rest);
            return NULL;
        }
    }
    found = Py_BuildValue("(iiO)", ready, own, rest == NULL ? Py_None : rest);
    Py_XDECREF(rest);
    return found;
}

PyDoc_STRVAR(pace_doc,
"pace(every_ns) -> fd\n\nA timerfd that is readable every so often; 0 stops it. The descriptor stays the same.");

static PyObject *reader_pace(Reader *self, PyObject *arg)
{
    long long every_ns = PyLong_AsLongLong(arg);
    struct itimerspec setting = {{0, 0}, {0, 0}};
    if (every_ns == -1 && PyErr_Occurred())
        return NULL;
    if (every_ns < 0) {
        PyErr_SetString(PyExc_ValueError, "a pace is not negative");
        return NULL;
    }
    if (self->timer < 0 && (self->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    setting.it_interval.tv_sec = setting.it_value.tv_sec = (time_t)(every_ns / 1000000000);
    setting.it_interval.tv_nsec = setting.it_value.tv_nsec = (long)(every_ns % 1000000000);
    if (timerfd_settime(self->timer, 0, &setting, NULL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLong(self->timer);
}

PyDoc_STRVAR(tick_doc, "tick()\n\nTake note of the pace's timer, so that it is not readable until the next time.");

static PyObject *reader_tick(Reader *self, PyObject *Py_UNUSED(none))
{
    uint64_t times;
    if (self->timer >= 0 && read(self->timer, &times, sizeof times) < 0 && errno != EAGAIN && errno != EINTR)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(close_doc, "close()\n\nDetach all and give the timer back.");

static void release(Reader *self)
{
    size_t i;
    for (i = 0; i < self->room; i++)
        if (self->streams[i] != NULL)
            stream_free(self->streams[i]);
    PyMem_Free(self->streams);
    self->streams = NULL;
    self->room = 0;
    if (self->timer >= 0)
        close(self->timer);
    self->timer = -1;
}

static PyObject *reader_close(Reader *self, PyObject *Py_UNUSED(none))
{
    release(self);
    Py_RETURN_NONE;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Reader *self;
    if (!PyArg_ParseTuple(args, ":Reader") || (kwargs != NULL && PyDict_GET_SIZE(kwargs))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Reader takes no arguments");
        return NULL;
    }
    self = (Reader *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->timer = -1;
    return (PyObject *)self;
}

static void reader_dealloc(Reader *self)
{
    release(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef reader_methods[] = {
    {"attach", (PyCFunction)reader_attach, METH_VARARGS, attach_doc},
    {"detach", (PyCFunction)reader_detach, METH_O, detach_doc},
    {"take", (PyCFunction)reader_take, METH_O, take_doc},
    {"read", (PyCFunction)reader_read, METH_VARARGS, read_doc},
    {"put", (PyCFunction)reader_put, METH_VARARGS, put_doc},
    {"serve", (PyCFunction)reader_serve, METH_VARARGS, serve_doc},
    {"pace", (PyCFunction)reader_pace, METH_O, pace_doc},
    {"tick", (PyCFunction)reader_tick, METH_NOARGS, tick_doc},
    {"close", (PyCFunction)reader_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ReaderType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loadgen.drive.kernel._reader.Reader",
    .tp_basicsize = sizeof(Reader),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = PyDoc_STR("Reads attached sockets without Python. Not thread-safe but for the GIL."),
    .tp_new = reader_new,
    .tp_dealloc = (destructor)reader_dealloc,
    .tp_methods = reader_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_reader", "Reads of many sockets, with the kernel's stamps.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__reader(void)
{
    PyObject *made;
    if (PyType_Ready(&ReaderType) < 0 || (made = PyModule_Create(&module)) == NULL)
        return NULL;
    if (PyModule_AddObjectRef(made, "Reader", (PyObject *)&ReaderType) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
