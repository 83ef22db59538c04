/*
 * An fsync that can be broken, to be preloaded into a node.
 *
 * The file that ONCEGATE_FSYNC_FILE names says how it is broken, and is read at every call:
 *   fail      it fails with EIO
 *   lie       it says that it is done, and does nothing
 *   slow MS   it takes so many milliseconds longer
 * Anything else, and no file at all: it works.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum mode { WORKS, FAILS, LIES };

/* How it is broken now; waits here where it is slow. */
static enum mode broken(void)
{
    const char *path = getenv("ONCEGATE_FSYNC_FILE");
    char text[32] = "";
    long millis;
    int file;

    if (path == NULL || (file = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return WORKS;
    if (read(file, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(file);
    if (strncmp(text, "fail", 4) == 0)
        return FAILS;
    if (strncmp(text, "lie", 3) == 0)
        return LIES;
    if (sscanf(text, "slow %ld", &millis) == 1) {
        struct timespec span = { millis / 1000, millis % 1000 * 1000000L };
        nanosleep(&span, NULL);
    }
    return WORKS;
}

static int synced(const char *name, int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

    switch (broken()) {
    case FAILS:
        errno = EIO;
        return -1;
    case LIES:
        return 0;
    default:
        return real(file);
    }
}

int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
