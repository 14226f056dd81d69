/* Reads a gzip header whose extra field is longer than the room the
   application gave for it, the input arriving in small pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zlib.h"

#define EXTRA 40
#define ROOM 16
#define PIECE 10

int case_main(int good)
{
    /* Magic, method, flags (extra), time, extra flags, system, length. */
    unsigned char input[12 + EXTRA] = {0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, EXTRA, 0};
    unsigned char *room = malloc(ROOM);
    unsigned char output[64];
    gz_header header;
    z_stream stream;
    unsigned at, piece = good ? sizeof input : PIECE;
    int i, result = Z_OK;

    for (i = 0; i < EXTRA; i++)
        input[12 + i] = 'a' + i % 26;
    memset(&stream, 0, sizeof stream);
    memset(&header, 0, sizeof header);
    if (inflateInit2(&stream, 31) != Z_OK)
        return 2;
    header.extra = room;
    header.extra_max = ROOM;
    if (inflateGetHeader(&stream, &header) != Z_OK)
        return 2;
    stream.next_out = output;
    stream.avail_out = sizeof output;
    for (at = 0; at < sizeof input; at += piece) {
        stream.next_in = input + at;
        stream.avail_in = sizeof input - at < piece ? sizeof input - at : piece;
        result = inflate(&stream, Z_NO_FLUSH);
        if (result != Z_OK)
            break;
    }
    printf("result %d, extra field of %u bytes, kept %.*s\n", result,
           header.extra_len, ROOM, (char *)room);
    inflateEnd(&stream);
    free(room);
    return 0;
}
