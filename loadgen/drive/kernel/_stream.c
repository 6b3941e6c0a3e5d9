/* One stream: what each read brought is kept as it came, with its stamp, until Python takes it.
 *
 * The framing is followed only to know when Python is wanted: at the end, at what is not plain, when enough is aside.
 * What it means is said by llhttp alone, which gets all of it; where this file is wrong, Python notices
 * (Answer.feed_aside).
 */
#include "_stream.h"

#include <Python.h> /* PyMem_*: what is kept is seen by tracemalloc */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ASIDE_BYTES (16 * 1024) /* beyond which Python is wanted: with one read, the most that is aside */
#define ASIDE_READS 512
#define HEX_DIGITS 15 /* of a chunk's size: fits an int64 */
#define STAMP_MESSAGE 35 /* SO_TIMESTAMPNS, asm-generic/socket.h: stamps.py */

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, OVER };

/* ---------------------------------------------------------------- framing */

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Follow chunks as every server writes them: hexadecimal size, CRLF, data, CRLF. Anything else is ODD. */
int stream_follow_chunks(Stream *s, const unsigned char *at, size_t n)
{
    const unsigned char *end = at + n;
    while (at < end) {
        size_t here;
        int value;
        switch (s->state) {
        case SIZE:
            value = hex_value(*at);
            if (value >= 0 && s->digits < HEX_DIGITS) {
                s->left = s->left * 16 + (uint64_t)value;
                s->digits++;
            } else if (*at == '\r' && s->digits > 0) {
                if (s->left == 0) { /* trailers, and the end, are llhttp's */
                    s->state = OVER;
                    return END;
                }
                s->state = SIZE_LF;
            } else {
                s->state = OVER;
                return ODD;
            }
            at++;
            break;
        case DATA:
            here = (size_t)(end - at);
            if (here > s->left)
                here = (size_t)s->left;
            at += here;
            s->body += (int64_t)here;
            s->left -= here;
            if (s->left == 0)
                s->state = DATA_CR;
            break;
        case SIZE_LF:
        case DATA_CR:
        case DATA_LF:
            if (*at != (s->state == DATA_CR ? '\r' : '\n')) {
                s->state = OVER;
                return ODD;
            }
            s->digits = 0; /* `left` is 0 where a size comes next */
            s->state = s->state == SIZE_LF ? DATA : s->state == DATA_CR ? DATA_LF : SIZE;
            at++;
            break;
        default:
            return END;
        }
    }
    return QUIET;
}

static int follow(Stream *s, const unsigned char *at, size_t n)
{
    if (s->framing == CHUNKED)
        return stream_follow_chunks(s, at, n);
    if (s->framing == SIZED) {
        size_t here = n < s->left ? n : (size_t)s->left;
        s->left -= here;
        s->body += (int64_t)here;
        return s->left == 0 ? END : QUIET;
    }
    s->body += (int64_t)n;
    return QUIET;
}

/* ---------------------------------------------------------------- what is aside */

int stream_reserve(void **array, size_t *room, size_t len, size_t more, size_t each, size_t first)
{
    size_t wanted = *room ? *room : first;
    void *grown;
    if (len + more <= *room)
        return 1;
    while (wanted < len + more)
        wanted *= 2;
    grown = PyMem_Realloc(*array, wanted * each);
    if (grown == NULL)
        return 0;
    *array = grown;
    *room = wanted;
    return 1;
}

int stream_keep(Stream *s, const unsigned char *data, size_t n, int64_t ns)
{
    int64_t before = s->body;
    int wanted;
    if (!stream_reserve((void **)&s->raw, &s->raw_room, s->raw_len, n, 1, 2048) ||
        !stream_reserve((void **)&s->reads, &s->reads_room, s->reads_len, 1, sizeof(Read), 16) ||
        !stream_reserve((void **)&s->pieces, &s->pieces_room, s->pieces_len, 1, sizeof(Piece), 16))
        return LOST;
    memcpy(s->raw + s->raw_len, data, n);
    s->raw_len += n;
    s->reads[s->reads_len].ns = ns;
    s->reads[s->reads_len++].bytes = (int64_t)n;
    wanted = follow(s, data, n);
    if (ns > s->last_ns)
        s->last_ns = ns;
    if (s->body > before) {
        if (s->pieces_len == 0 || s->pieces[s->pieces_len - 1].ns != s->last_ns)
            s->pieces[s->pieces_len++].ns = s->last_ns;
        s->pieces[s->pieces_len - 1].end = s->body;
    }
    if (ns == NO_STAMP && wanted != ODD)
        return UNSTAMPED;
    if (wanted == QUIET && (s->body > s->max_body || s->raw_len >= ASIDE_BYTES || s->reads_len >= ASIDE_READS))
        return FULL;
    return wanted;
}

void stream_empty(Stream *s)
{
    s->pieces_before += s->pieces_len;
    s->raw_len = s->reads_len = s->pieces_len = 0;
    if (s->raw_room > ASIDE_BYTES) { /* after a large read */
        PyMem_Free(s->raw);
        s->raw = NULL;
        s->raw_room = 0;
    }
}

void stream_free(Stream *s)
{
    PyMem_Free(s->raw);
    PyMem_Free(s->reads);
    PyMem_Free(s->pieces);
    PyMem_Free(s);
}

/* ---------------------------------------------------------------- sockets */

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The read's stamp. NO_STAMP: none came, or one of the future, as after a step of the wall clock. */
static int64_t stamp_of(struct msghdr *message, int64_t offset_ns, int64_t uncertainty_ns)
{
    struct cmsghdr *one;
    for (one = CMSG_FIRSTHDR(message); one != NULL; one = CMSG_NXTHDR(message, one)) {
        long parts[2]; /* struct timespec of SO_TIMESTAMPNS */
        int64_t ns;
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != STAMP_MESSAGE || one->cmsg_len != CMSG_LEN(sizeof parts))
            continue;
        memcpy(parts, CMSG_DATA(one), sizeof parts);
        ns = (int64_t)parts[0] * 1000000000 + parts[1] - offset_ns;
        return ns <= monotonic_ns() + uncertainty_ns ? ns : NO_STAMP;
    }
    return NO_STAMP;
}

/* One read. Why Python is wanted, QUIET if it is not. */
int stream_read(Stream *s, unsigned char *scratch, int64_t offset_ns, int64_t uncertainty_ns)
{
    union {
        struct cmsghdr align;
        char bytes[256];
    } control;
    struct iovec into = {scratch, READ_BYTES};
    struct msghdr message = {0};
    ssize_t n;
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    n = recvmsg(s->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0)
        return stream_keep(s, scratch, (size_t)n, stamp_of(&message, offset_ns, uncertainty_ns));
    if (n == 0)
        return ENDED;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? QUIET : ERROR + errno;
}
