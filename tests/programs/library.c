/* The library of uses_library.c. */
unsigned long digest(const unsigned char *bytes, unsigned long length)
{
    unsigned long hash = 14695981039346656037ul;
    for (unsigned turn = 0; turn < 4; turn++)
        for (unsigned long i = 0; i < length; i++)
            hash = (hash ^ bytes[i]) * 1099511628211ul;
    return hash;
}
