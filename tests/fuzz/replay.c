/* Runs a fuzz target over every file of the directories named on the command line; TAP. What once
 * broke a parser is kept in its corpus and stays mended. */

#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_file(const char *dir, const char *name, struct err *err)
{
    AUTO_BUF struct buf path = {0}, bytes = {0};
    buf_printf(&path, "%s/%s", dir, name);
    AUTO_CLOSE int fd = open(path.ptr, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path.ptr);
    if (buf_read_all(&bytes, fd, err) < 0)
        return -1;
    /* An exact copy, so that a sanitizer sees a read past the end. */
    AUTO_MEM uint8_t *copy = mem_dup(buf_cstr(&bytes), bytes.len);
    (void)LLVMFuzzerTestOneInput(copy, bytes.len);
    return 0;
}

/* Gives the number of files, all of which passed: the target aborts where it breaks. */
static int replay_dir(const char *dir, int count)
{
    struct dirent **entries;
    struct err err = {0};
    int found = scandir(dir, &entries, is_visible, alphasort);
    if (found <= 0) {
        printf("Bail out! no corpus in %s\n", dir);
        exit(1);
    }
    for (int i = 0; i < found; i++) {
        count++;
        /* Said before the attempt: a crash then names its input. */
        printf("# %s\n", entries[i]->d_name);
        (void)fflush(stdout);
        int result = replay_file(dir, entries[i]->d_name, &err);
        printf("%sok %d - %s%s%s\n", result < 0 ? "not " : "", count, entries[i]->d_name,
               result < 0 ? ": " : "", result < 0 ? err.msg : "");
        free(entries[i]);
    }
    free(entries);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count = replay_dir(argv[i], count);
    printf("1..%d\n", count);
    return 0;
}
