// Swapped arguments: an image is rotated with its width for its height.
// fails: output
// slice: thin
// repair: rotate(&image, &turned, image.width, image.height);
#include <stdio.h>
#include <string.h>

struct image {
    int width, height;
    char pixels[64];
};

static void draw(struct image *image, int width, int height) {
    image->width = width;
    image->height = height;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            image->pixels[y * width + x] = (char)('a' + (y * width + x) % 26);
}

static void rotate(const struct image *from, struct image *to, int width, int height) {
    to->width = height;
    to->height = width;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            to->pixels[x * height + (height - 1 - y)] = from->pixels[y * width + x];
}

static void show(const struct image *image) {
    printf("%dx%d\n", image->width, image->height);
    for (int y = 0; y < image->height; y++)
        printf("%.*s\n", image->width, image->pixels + y * image->width);
}

int main(void) {
    struct image image, turned;
    int shown = 0;
    draw(&image, 5, 3);
    show(&image);
    shown++; /* NOT */
    rotate(&image, &turned, image.height, image.width); /* BUG */
    show(&turned);
    shown++; /* NOT */
    printf("%d images\n", shown);
    return 0;
}
