/* The payloads of a plain block of server-sent events: sse.py says what that is. Pure: bytes in, bytes out. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define FIELD "data: "
#define FIELD_BYTES 6
#define BESIDE 8 /* bytes of an event that are not its payload */

/* Append the payload of every event of the block. 1: it is plain, 0: it is not, -1: an error is set. */
static int split(PyObject *payloads, const char *at, const char *end)
{
    if (at == end || memchr(at, '\r', (size_t)(end - at)) != NULL)
        return 0;
    while (at < end) {
        const char *line_end;
        PyObject *one;
        int failed;
        if (end - at < BESIDE || memcmp(at, FIELD, FIELD_BYTES) != 0)
            return 0;
        at += FIELD_BYTES;
        line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL || line_end + 1 == end || line_end[1] != '\n')
            return 0;
        if ((one = PyBytes_FromStringAndSize(at, line_end - at)) == NULL)
            return -1;
        failed = PyList_Append(payloads, one);
        Py_DECREF(one);
        if (failed)
            return -1;
        at = line_end + 2;
    }
    return 1;
}

PyDoc_STRVAR(plain_payloads_doc,
"plain_payloads(block) -> (payloads, ends) | None\n\n"
"As loadgen.drive.sse.plain_payloads; `ends` are int64 in native order.");

static PyObject *plain_payloads(PyObject *Py_UNUSED(module), PyObject *block)
{
    PyObject *payloads, *ends = NULL, *found = NULL;
    const char *data;
    Py_ssize_t i, n;
    int64_t end = 0;
    int plain;
    if (!PyBytes_Check(block)) {
        PyErr_SetString(PyExc_TypeError, "a block is bytes");
        return NULL;
    }
    if ((payloads = PyList_New(0)) == NULL)
        return NULL;
    data = PyBytes_AS_STRING(block);
    plain = split(payloads, data, data + PyBytes_GET_SIZE(block));
    if (plain == 0)
        found = Py_NewRef(Py_None);
    n = PyList_GET_SIZE(payloads); /* times 8 is at most the block's length */
    if (plain == 1 && (ends = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof end)) != NULL) {
        for (i = 0; i < n; i++) {
            end += PyBytes_GET_SIZE(PyList_GET_ITEM(payloads, i)) + BESIDE;
            memcpy(PyBytes_AS_STRING(ends) + i * (Py_ssize_t)sizeof end, &end, sizeof end);
        }
        found = PyTuple_Pack(2, payloads, ends);
    }
    Py_XDECREF(ends);
    Py_DECREF(payloads);
    return found;
}

static PyMethodDef methods[] = {
    {"plain_payloads", plain_payloads, METH_O, plain_payloads_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_sse", "Plain blocks of server-sent events.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__sse(void)
{
    return PyModule_Create(&module);
}
