/* Exact replacement of text in a file: all or nothing, and only when it is clear what is meant. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "files/internal.h"

static uint64_t count_matches(struct str text, struct str needle)
{
    uint64_t count = 0;
    for (;;) {
        size_t at = str_find(text, needle);
        if (at == text.len)
            return count;
        count++;
        text = str_slice(text, at + needle.len, text.len);
    }
}

static int replace_all(struct str text, struct str old_text, struct str new_text, struct buf *out,
                       struct err *err)
{
    for (;;) {
        size_t at = str_find(text, old_text);
        if (buf_append(out, str_slice(text, 0, at), err) < 0)
            return -1;
        if (at == text.len)
            return 0;
        if (buf_append(out, new_text, err) < 0)
            return -1;
        text = str_slice(text, at + old_text.len, text.len);
    }
}

static int check_texts(struct str old_text, struct str new_text, struct err *err)
{
    if (old_text.len == 0)
        return err_set(err, ERR_INVALID, "the text to replace is empty; write the file instead");
    if (str_eq(old_text, new_text))
        return err_set(err, ERR_INVALID, "old and new text are the same");
    return 0;
}

static int check_count(uint64_t count, bool all, struct str path, struct err *err)
{
    if (count == 0)
        return err_set(err, ERR_NO_MATCH, "'%.*s' does not contain this text; read it again",
                       STR_ARG(path));
    if (count > 1 && !all)
        return err_set(err, ERR_AMBIGUOUS_MATCH,
                       "'%.*s' contains this text %llu times; give more context or replace all",
                       STR_ARG(path), (unsigned long long)count);
    return 0;
}

int files_edit(struct files *files, struct str path, struct str old_text, struct str new_text,
               bool all, uint64_t *ret_replaced, struct err *err)
{
    if (files_check_writable(files, err) < 0 || check_texts(old_text, new_text, err) < 0)
        return -1;
    struct stat st, now;
    AUTO_CLOSE int fd = files_open_regular(files, path, O_RDONLY | O_NOFOLLOW, &st, err);
    if (fd < 0)
        return -1;
    AUTO_BUF struct buf text = buf_with_limit(FILES_WRITE_MAX);
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "edit '%.*s'", STR_ARG(path));
    uint64_t count = count_matches(buf_str(&text), old_text);
    if (check_count(count, all, path, err) < 0)
        return -1;
    AUTO_BUF struct buf edited = buf_with_limit(FILES_WRITE_MAX);
    if (replace_all(buf_str(&text), old_text, new_text, &edited, err) < 0)
        return err_wrap(err, "edit '%.*s'", STR_ARG(path));
    /* Otherwise a write by another process since the read would be lost silently. */
    if (SYS(fstat(fd, &now)) < 0)
        return err_sys(err, errno, "stat '%.*s'", STR_ARG(path));
    if (now.st_size != st.st_size || now.st_mtim.tv_sec != st.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != st.st_mtim.tv_nsec || now.st_nlink == 0)
        return err_set(err, ERR_CONFLICT, "'%.*s' has changed since it was read; read it again",
                       STR_ARG(path));
    bool created;
    if (files_write(files, path, buf_str(&edited), NULL, &created, err) < 0)
        return -1;
    *ret_replaced = count;
    return 0;
}
