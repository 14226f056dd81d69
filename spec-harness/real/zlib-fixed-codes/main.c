/* Compresses data full of distant matches with the fixed codes and a small
   memory level, and reads it back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zlib.h"

#define LENGTH 180
#define COPIES 600

static unsigned state = 12345;

static unsigned next_random(void)
{
    state = state * 1103515245u + 12345u;
    return state >> 16 & 0x7fff;
}

static unsigned char plain[32768 + LENGTH * COPIES];
static unsigned char packed[sizeof plain * 2];
static unsigned char back[sizeof plain];

int case_main(int good)
{
    size_t size = 0, i;
    z_stream stream;
    unsigned long packed_size;
    int result;

    /* Noise, and after it pieces of what came some 24 to 32 KiB before. */
    while (size < 30000)
        plain[size++] = (unsigned char)next_random();
    for (i = 0; i < COPIES; i++) {
        size_t from = size - 32000 + 2 * (next_random() % 3000);
        if (size < 32000)
            from = next_random() % 3000;
        memcpy(plain + size, plain + from, LENGTH);
        size += LENGTH;
    }

    memset(&stream, 0, sizeof stream);
    if (deflateInit2(&stream, 9, Z_DEFLATED, 15, good ? 8 : 1,
                     good ? Z_DEFAULT_STRATEGY : Z_FIXED) != Z_OK)
        return 2;
    stream.next_in = plain;
    stream.avail_in = (uInt)size;
    stream.next_out = packed;
    stream.avail_out = sizeof packed;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
        return 2;
    packed_size = stream.total_out;
    deflateEnd(&stream);

    memset(&stream, 0, sizeof stream);
    if (inflateInit2(&stream, 15) != Z_OK)
        return 2;
    stream.next_in = packed;
    stream.avail_in = (uInt)packed_size;
    stream.next_out = back;
    stream.avail_out = sizeof back;
    result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (result == Z_STREAM_END && stream.total_out == size && memcmp(plain, back, size) == 0)
        printf("same\n");
    else
        printf("differs\n");
    return 0;
}
