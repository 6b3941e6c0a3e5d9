/* The plain payloads of OpenAI-compatible streams, read without an object for each: openai_plain.py.
 *
 * One payload is one JSON object of the fields named here. What is read is what msgspec reads there; what is not exactly
 * that, by a field, a type, a range, a repeated key, bad UTF-8 or bad JSON, ends the run and is left to Python: this file
 * may know too little, never too much. Pure: bytes in, numbers out.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json.h"

#include <string.h>

#define WHOLE_DIGITS 15 /* all of them below 2**53 */

/* Values that a field may have; each may be null but the choices. */
enum Kind { TEXT, COUNT, WHOLE, NOTHING, COUNTS, NO_ITEMS, COUNT_OR_TEXT, OBJECT_NAME, FINISH, DELTA, USAGE, CHOICES };

/* What is kept of a payload: a field's place in `Found.of`. */
enum Keep { DROP, IDS, COMPLETION, PROMPT, ANSWER, REASONING, REASON, KEPT };

enum { FINISH_NONE, FINISH_STOP, FINISH_LENGTH };

typedef struct {
    const char *name; /* NULL after the last */
    size_t length;
    enum Kind kind;
    enum Keep keep;
} Field;

typedef struct {
    Scan scan;
    int64_t of[KEPT]; /* number of ids; counts, -1 = not told; whether there is text; the finish */
} Found;

#define F(name, kind, keep) {name, sizeof name - 1, kind, keep}
#define LAST {NULL, 0, NOTHING, DROP}

/* In the order in which vLLM sends them. */
static const Field PAYLOAD[] = {
    F("id", TEXT, DROP), F("object", OBJECT_NAME, DROP), F("created", WHOLE, DROP), F("model", TEXT, DROP),
    F("choices", CHOICES, DROP), F("usage", USAGE, DROP), F("seq", TEXT, DROP), F("sm", TEXT, DROP), F("sr", TEXT, DROP),
    F("prompt_token_ids", COUNTS, DROP), F("prompt_text", TEXT, DROP), F("system_fingerprint", TEXT, DROP),
    F("service_tier", TEXT, DROP), F("metrics", NOTHING, DROP), LAST,
};
#define CHOICES_PLACE 4
static const Field CHOICE[] = {
    F("index", COUNT, DROP), F("delta", DELTA, DROP), F("text", TEXT, ANSWER), F("logprobs", NOTHING, DROP),
    F("finish_reason", FINISH, REASON), F("stop_reason", COUNT_OR_TEXT, DROP), F("matched_stop", COUNT_OR_TEXT, DROP),
    F("prompt_logprobs", NOTHING, DROP), F("prompt_token_ids", COUNTS, DROP), F("token_ids", COUNTS, IDS),
    F("routed_experts", NOTHING, DROP), LAST,
};
static const Field DELTA_FIELDS[] = {
    F("role", TEXT, DROP), F("content", TEXT, ANSWER), F("reasoning", TEXT, REASONING),
    F("reasoning_content", TEXT, REASONING), F("tool_calls", NO_ITEMS, DROP), F("refusal", NOTHING, DROP),
    F("function_call", NOTHING, DROP), LAST,
};
static const Field USAGE_FIELDS[] = {
    F("prompt_tokens", COUNT, PROMPT), F("total_tokens", COUNT, DROP), F("completion_tokens", COUNT, COMPLETION),
    F("prompt_tokens_details", NOTHING, DROP), F("completion_tokens_details", NOTHING, DROP), LAST,
};

/* ---------------------------------------------------------------- the fields */

static int take_object(Found *f, const Field *fields, uint32_t *seen);

static int take_plain_object(Found *f, const Field *fields)
{
    uint32_t seen;
    return take_object(f, fields, &seen);
}

static int take_value(Found *f, const Field *field)
{
    int64_t value = 0;
    size_t length;
    unsigned char first;
    scan_space(&f->scan);
    if (f->scan.at == f->scan.end)
        return 0;
    first = *f->scan.at;
    if (first == 'n')
        return field->kind != CHOICES && scan_word(&f->scan, "null", 4);
    switch (field->kind) {
    case COUNT:
        if (!scan_number(&f->scan, COUNT_DIGITS, COUNT_MOST, &value))
            return 0;
        break;
    case WHOLE:
        return scan_number(&f->scan, WHOLE_DIGITS, INT64_MAX, &value);
    case COUNT_OR_TEXT:
        if (first != '"')
            return scan_number(&f->scan, COUNT_DIGITS, COUNT_MOST, &value);
        /* fall through */
    case TEXT:
        f->scan.at++;
        if (first != '"' || !scan_text(&f->scan, &length))
            return 0;
        if (length == 0) /* of `text` and `content`, of the two names of reasoning: either */
            return 1;
        value = 1;
        break;
    case OBJECT_NAME:
        return scan_word(&f->scan, "\"text_completion\"", 17) || scan_word(&f->scan, "\"chat.completion.chunk\"", 23);
    case FINISH:
        value = scan_word(&f->scan, "\"stop\"", 6) ? FINISH_STOP : scan_word(&f->scan, "\"length\"", 8) ? FINISH_LENGTH : FINISH_NONE;
        if (value == FINISH_NONE)
            return 0;
        break;
    case COUNTS:
        if (!scan_mark(&f->scan, '[') || !scan_counts(&f->scan, &value))
            return 0;
        break;
    case NO_ITEMS:
        return scan_mark(&f->scan, '[') && scan_mark(&f->scan, ']');
    case DELTA:
        return take_plain_object(f, DELTA_FIELDS);
    case USAGE:
        return take_plain_object(f, USAGE_FIELDS);
    case CHOICES:
        return scan_mark(&f->scan, '[') && take_plain_object(f, CHOICE) && scan_mark(&f->scan, ']');
    default: /* NOTHING */
        return 0;
    }
    if (field->keep != DROP)
        f->of[field->keep] = value;
    return 1;
}

/* The number of the field of that name, -1 if there is none; `guess`: the one that usually comes next. */
static int field_of(const Field *fields, int guess, const unsigned char *name, size_t length)
{
    int i;
    if (fields[guess].name != NULL && fields[guess].length == length && !memcmp(fields[guess].name, name, length))
        return guess;
    for (i = 0; fields[i].name != NULL; i++)
        if (fields[i].length == length && memcmp(fields[i].name, name, length) == 0)
            return i;
    return -1;
}

/* An object of these fields, in any order, none twice. `*seen`: a bit of each that is there. */
static int take_object(Found *f, const Field *fields, uint32_t *seen)
{
    int next = 0;
    *seen = 0;
    if (!scan_mark(&f->scan, '{'))
        return 0;
    if (scan_mark(&f->scan, '}'))
        return 1;
    do {
        const unsigned char *name;
        size_t length;
        if (!scan_mark(&f->scan, '"'))
            return 0;
        name = f->scan.at;
        if (!scan_text(&f->scan, &length) || (next = field_of(fields, next, name, length)) < 0 || *seen & 1u << next)
            return 0;
        *seen |= 1u << next;
        if (!scan_mark(&f->scan, ':') || !take_value(f, &fields[next]))
            return 0;
        next++;
    } while (scan_mark(&f->scan, ','));
    return scan_mark(&f->scan, '}');
}

static int take_payload(Found *f, const char *data, Py_ssize_t size)
{
    uint32_t seen;
    f->scan.at = (const unsigned char *)data;
    f->scan.end = f->scan.at + size;
    memset(f->of, 0, sizeof f->of);
    f->of[COMPLETION] = f->of[PROMPT] = -1;
    if (!take_object(f, PAYLOAD, &seen) || !(seen & 1u << CHOICES_PLACE))
        return 0;
    scan_space(&f->scan);
    return f->scan.at == f->scan.end;
}

/* ---------------------------------------------------------------- Python's side */

PyDoc_STRVAR(read_doc,
"read(payloads) -> (ids, completion_tokens, outputs, answers, prompt_tokens, finish)\n\n"
"The leading plain payloads, as columns of a `ChunkRun`: the first two int64 in native order. `prompt_tokens`: -1 = not\n"
"told. `finish`: 0 = not told, 1 = stop, 2 = length.");

static PyObject *read_payloads(PyObject *Py_UNUSED(module), PyObject *payloads)
{
    PyObject *all, *ids = NULL, *tokens = NULL, *outputs = NULL, *answers = NULL, *found = NULL;
    Py_ssize_t n, i;
    int64_t prompt = -1, finish = FINISH_NONE;
    if ((all = PySequence_Fast(payloads, "payloads are a sequence of bytes")) == NULL)
        return NULL;
    n = PySequence_Fast_GET_SIZE(all);
    if (n > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(int64_t)) {
        Py_DECREF(all);
        return PyErr_NoMemory();
    }
    ids = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(int64_t));
    tokens = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(int64_t));
    outputs = PyBytes_FromStringAndSize(NULL, n);
    answers = PyBytes_FromStringAndSize(NULL, n);
    if (ids == NULL || tokens == NULL || outputs == NULL || answers == NULL)
        goto end;
    for (i = 0; i < n; i++) {
        PyObject *one = PySequence_Fast_GET_ITEM(all, i);
        Found f;
        if (!PyBytes_Check(one) || !take_payload(&f, PyBytes_AS_STRING(one), PyBytes_GET_SIZE(one)))
            break;
        memcpy(PyBytes_AS_STRING(ids) + i * (Py_ssize_t)sizeof(int64_t), &f.of[IDS], sizeof(int64_t));
        memcpy(PyBytes_AS_STRING(tokens) + i * (Py_ssize_t)sizeof(int64_t), &f.of[COMPLETION], sizeof(int64_t));
        PyBytes_AS_STRING(answers)[i] = (char)f.of[ANSWER];
        PyBytes_AS_STRING(outputs)[i] = (char)(f.of[ANSWER] | f.of[REASONING]);
        prompt = f.of[PROMPT] >= 0 ? f.of[PROMPT] : prompt;
        finish = f.of[REASON] != FINISH_NONE ? f.of[REASON] : finish;
    }
    if (i < n && (_PyBytes_Resize(&ids, i * (Py_ssize_t)sizeof(int64_t)) < 0 ||
                  _PyBytes_Resize(&tokens, i * (Py_ssize_t)sizeof(int64_t)) < 0 || _PyBytes_Resize(&outputs, i) < 0 ||
                  _PyBytes_Resize(&answers, i) < 0))
        goto end; /* the one that failed is NULL by now */
    found = Py_BuildValue("(OOOOLL)", ids, tokens, outputs, answers, (long long)prompt, (long long)finish);
end:
    Py_DECREF(all);
    Py_XDECREF(ids);
    Py_XDECREF(tokens);
    Py_XDECREF(outputs);
    Py_XDECREF(answers);
    return found;
}

static PyMethodDef methods[] = {{"read", read_payloads, METH_O, read_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_plain", "Plain payloads, many at a time.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__plain(void)
{
    return PyModule_Create(&module);
}
