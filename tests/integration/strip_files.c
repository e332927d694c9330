/* Strips files for the differential test: one path per line on stdin, one JSON line each on
 * stdout, `{"ok":true,"js":...}` or `{"ok":false,"code":...,"message":...,"line":n,"column":n}`. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "isolate/strip/strip.h"

static int read_file(const char *path, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    return buf_read_all(out, fd, err);
}

static void put_json_text(struct str text)
{
    putchar('"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void strip_file(struct strip *strip, const char *path)
{
    struct err err = {0};
    struct strip_place place = {0};
    AUTO_BUF struct buf source = {0};
    AUTO_BUF struct buf js = {0};
    enum strip_lang lang = str_ends(str_of(path), STR("tsx")) ? STRIP_TSX : STRIP_TS;
    if (read_file(path, &source, &err) == 0 &&
        strip_run(strip, lang, buf_str(&source), &js, &place, &err) == 0) {
        printf("{\"ok\":true,\"js\":");
        put_json_text(buf_str(&js));
    } else {
        printf("{\"ok\":false,\"code\":\"%s\",\"line\":%u,\"column\":%u,\"message\":",
               err_wire_name(err.code), place.line, place.column);
        put_json_text(str_of(err.msg));
    }
    printf("}\n");
}

int main(void)
{
    AUTO_STRIP struct strip *strip = strip_new((struct strip_limits){0});
    char path[4096];
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        strip_file(strip, path);
    }
    return 0;
}
