/* One stream whose reads are put aside: _stream.c. No Python objects, no errors of Python's. */
#ifndef SPECLOAD_STREAM_H
#define SPECLOAD_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define READ_BYTES (64 * 1024)
#define NO_STAMP INT64_MIN

/* Why Python is wanted, as in aside.py; ERROR + errno. */
enum { QUIET = 0, LATER = 1, FULL = 2, END = 3, ENDED = 4, ODD = 5, UNSTAMPED = 6, LOST = 7, ERROR = 1000 };
enum { CHUNKED = 0, SIZED = 1, OPEN = 2 };

typedef struct {
    int64_t ns; /* NO_STAMP: the kernel gave none */
    int64_t bytes;
} Read;

typedef struct {
    int64_t ns;
    int64_t end; /* length of the body after it */
} Piece;

typedef struct {
    int fd;
    int framing;
    int state; /* within chunks, 0 at first */
    int digits;
    int told_later;
    uint64_t left;   /* of this chunk, of a SIZED body */
    int64_t body;    /* length of the body, if the framing has been followed rightly */
    int64_t max_body;
    int64_t last_ns; /* stamps never fall */
    size_t pieces_before;
    unsigned char *raw;
    size_t raw_len, raw_room;
    Read *reads;
    size_t reads_len, reads_room;
    Piece *pieces;
    size_t pieces_len, pieces_room;
} Stream;

#pragma GCC visibility push(hidden) /* no other library's functions of the same name */
/* What the socket brings, `scratch` being READ_BYTES of room; the wall clock's offset, and how well it is known. */
int stream_read(Stream *s, unsigned char *scratch, int64_t offset_ns, int64_t uncertainty_ns);
/* As one read of these bytes. */
int stream_keep(Stream *s, const unsigned char *data, size_t n, int64_t ns);
/* Chunks that were read elsewhere. */
int stream_follow_chunks(Stream *s, const unsigned char *at, size_t n);
/* Nothing is aside any more. */
void stream_empty(Stream *s);
void stream_free(Stream *s);
/* Room for `more` elements beyond `len`. False: out of memory, everything is as it was. */
int stream_reserve(void **array, size_t *room, size_t len, size_t more, size_t each, size_t first);
#pragma GCC visibility pop

#endif
