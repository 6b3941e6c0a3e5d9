/* The plain payloads of OpenAI-compatible streams, read without an object for each: openai_plain.py.
 *
 * One payload is one JSON object of the fields named here. What is read is what msgspec reads there; what is not exactly
 * that, by a field, a type, a range, a repeated key, bad UTF-8 or bad JSON, ends the run and is left to Python: this file
 * may know too little, never too much. Pure: bytes in, numbers out.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define COUNT_DIGITS 10
#define COUNT_MOST 2147483647LL
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
    const unsigned char *at, *end;
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

/* ---------------------------------------------------------------- JSON; every function: false = not plain */

static void skip_space(Found *f)
{
    while (f->at < f->end && (*f->at == ' ' || *f->at == '\t'))
        f->at++;
}

static int take(Found *f, unsigned char wanted)
{
    skip_space(f);
    if (f->at == f->end || *f->at != wanted)
        return 0;
    f->at++;
    return 1;
}

static int take_word(Found *f, const char *word, size_t n)
{
    if ((size_t)(f->end - f->at) < n || memcmp(f->at, word, n) != 0)
        return 0;
    f->at += n;
    return 1;
}

static int take_null(Found *f)
{
    return take_word(f, "null", 4);
}

/* One character of more than a byte, as RFC 3629 has it. */
static int take_character(Found *f)
{
    const unsigned char *p = f->at;
    size_t left = (size_t)(f->end - p), more, i;
    unsigned char low = 0x80, high = 0xBF;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        more = 1;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        more = 2;
        low = p[0] == 0xE0 ? 0xA0 : low;
        high = p[0] == 0xED ? 0x9F : high;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        more = 3;
        low = p[0] == 0xF0 ? 0x90 : low;
        high = p[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (left <= more || p[1] < low || p[1] > high)
        return 0;
    for (i = 2; i <= more; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    f->at += more + 1;
    return 1;
}

/* The four digits of \uXXXX, -1 where there are none. */
static long hex_of(const Found *f, const unsigned char *at)
{
    long value = 0;
    int i;
    if (f->end - at < 4)
        return -1;
    for (i = 0; i < 4; i++) {
        unsigned char c = at[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* After the backslash. Half of a surrogate pair is no character. */
static int take_escape(Found *f)
{
    long first, second;
    if (f->at == f->end)
        return 0;
    if (*f->at != 'u') {
        if (*f->at == 0 || strchr("\"\\/bfnrt", *f->at) == NULL)
            return 0;
        f->at++;
        return 1;
    }
    first = hex_of(f, f->at + 1);
    if (first < 0 || (first >= 0xDC00 && first <= 0xDFFF))
        return 0;
    f->at += 5;
    if (first < 0xD800 || first > 0xDBFF)
        return 1;
    if (!take_word(f, "\\u", 2))
        return 0;
    second = hex_of(f, f->at);
    if (second < 0xDC00 || second > 0xDFFF)
        return 0;
    f->at += 4;
    return 1;
}

/* After the quote; `*length`: of what stands between the quotes. */
static int take_text(Found *f, size_t *length)
{
    const unsigned char *begin = f->at;
    while (f->at < f->end) {
        unsigned char c = *f->at;
        if (c == '"') {
            *length = (size_t)(f->at - begin);
            f->at++;
            return 1;
        }
        if (c < 0x20)
            return 0;
        if (c < 0x80 && c != '\\') {
            f->at++;
        } else if (c == '\\') {
            f->at++;
            if (!take_escape(f))
                return 0;
        } else if (!take_character(f)) {
            return 0;
        }
    }
    return 0;
}

static int take_number(Found *f, int digits, int64_t most, int64_t *value)
{
    const unsigned char *begin = f->at;
    int64_t sum = 0;
    while (f->at < f->end && *f->at >= '0' && *f->at <= '9') {
        if (f->at - begin == digits)
            return 0;
        sum = sum * 10 + (*f->at++ - '0');
    }
    if (f->at == begin || (*begin == '0' && f->at - begin > 1) || sum > most)
        return 0;
    *value = sum; /* a fraction or an exponent comes next: no comma, no end */
    return 1;
}

/* A list of counts: how many. */
static int take_counts(Found *f, int64_t *number)
{
    int64_t value;
    *number = 0;
    if (take(f, ']'))
        return 1;
    do {
        skip_space(f);
        if (!take_number(f, COUNT_DIGITS, COUNT_MOST, &value))
            return 0;
        ++*number;
    } while (take(f, ','));
    return take(f, ']');
}

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
    skip_space(f);
    if (f->at == f->end)
        return 0;
    first = *f->at;
    if (first == 'n')
        return field->kind != CHOICES && take_null(f);
    switch (field->kind) {
    case COUNT:
        if (!take_number(f, COUNT_DIGITS, COUNT_MOST, &value))
            return 0;
        break;
    case WHOLE:
        return take_number(f, WHOLE_DIGITS, INT64_MAX, &value);
    case COUNT_OR_TEXT:
        if (first != '"')
            return take_number(f, COUNT_DIGITS, COUNT_MOST, &value);
        /* fall through */
    case TEXT:
        f->at++;
        if (first != '"' || !take_text(f, &length))
            return 0;
        if (length == 0) /* of `text` and `content`, of the two names of reasoning: either */
            return 1;
        value = 1;
        break;
    case OBJECT_NAME:
        return take_word(f, "\"text_completion\"", 17) || take_word(f, "\"chat.completion.chunk\"", 23);
    case FINISH:
        value = take_word(f, "\"stop\"", 6) ? FINISH_STOP : take_word(f, "\"length\"", 8) ? FINISH_LENGTH : FINISH_NONE;
        if (value == FINISH_NONE)
            return 0;
        break;
    case COUNTS:
        if (!take(f, '[') || !take_counts(f, &value))
            return 0;
        break;
    case NO_ITEMS:
        return take(f, '[') && take(f, ']');
    case DELTA:
        return take_plain_object(f, DELTA_FIELDS);
    case USAGE:
        return take_plain_object(f, USAGE_FIELDS);
    case CHOICES:
        return take(f, '[') && take_plain_object(f, CHOICE) && take(f, ']');
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
    if (!take(f, '{'))
        return 0;
    if (take(f, '}'))
        return 1;
    do {
        const unsigned char *name;
        size_t length;
        if (!take(f, '"'))
            return 0;
        name = f->at;
        if (!take_text(f, &length) || (next = field_of(fields, next, name, length)) < 0 || *seen & 1u << next)
            return 0;
        *seen |= 1u << next;
        if (!take(f, ':') || !take_value(f, &fields[next]))
            return 0;
        next++;
    } while (take(f, ','));
    return take(f, '}');
}

static int take_payload(Found *f, const char *data, Py_ssize_t size)
{
    uint32_t seen;
    f->at = (const unsigned char *)data;
    f->end = f->at + size;
    memset(f->of, 0, sizeof f->of);
    f->of[COMPLETION] = f->of[PROMPT] = -1;
    if (!take_object(f, PAYLOAD, &seen) || !(seen & 1u << CHOICES_PLACE))
        return 0;
    skip_space(f);
    return f->at == f->end;
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
