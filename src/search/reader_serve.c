/* The process that reads documents. It is confined before it looks at the first one. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "search/reader_internal.h"

enum { EXIT_SETUP = 4, EXIT_INPUT = 5, INPUT_MAX = 256 << 20, OUTPUT_MAX = 512 << 20 };

/* ---- confinement ---- */

static const struct confine_rule rules[] = {
    {SYS_read, CONFINE_PLAIN},  /* documents */
    {SYS_write, CONFINE_PLAIN}, /* records */
    {SYS_brk, CONFINE_PLAIN},
    {SYS_mmap, CONFINE_NO_EXEC},
    {SYS_mprotect, CONFINE_NO_EXEC},
    {SYS_munmap, CONFINE_PLAIN},
    {SYS_mremap, CONFINE_PLAIN},
    {SYS_madvise, CONFINE_PLAIN},
    {SYS_futex, CONFINE_PLAIN},
    {SYS_getrandom, CONFINE_PLAIN},
    {SYS_getpid, CONFINE_PLAIN},
    {SYS_gettid, CONFINE_PLAIN},
    {SYS_clock_gettime, CONFINE_PLAIN},
    {SYS_rt_sigreturn, CONFINE_PLAIN},
    {SYS_rt_sigprocmask, CONFINE_PLAIN},
    {SYS_exit, CONFINE_PLAIN},
    {SYS_exit_group, CONFINE_PLAIN},
    /* The C library looks for tables of character sets, and does without. */
    {SYS_openat, CONFINE_REFUSED},
    {SYS_newfstatat, CONFINE_REFUSED},
    {SYS_fstat, CONFINE_REFUSED},
    {SYS_faccessat, CONFINE_REFUSED},
    {SYS_readlinkat, CONFINE_REFUSED},
    {SYS_getcwd, CONFINE_REFUSED},
    {SYS_lseek, CONFINE_REFUSED},
    {SYS_close, CONFINE_REFUSED},
    {SYS_prctl, CONFINE_REFUSED},
#ifdef SYS_open
    {SYS_open, CONFINE_REFUSED},
    {SYS_access, CONFINE_REFUSED},
    {SYS_readlink, CONFINE_REFUSED},
#endif
#if defined(__SANITIZE_ADDRESS__)
    {SYS_sigaltstack, CONFINE_PLAIN},
#endif
};

static const struct confine_limit limits[] = {
    {RLIMIT_CPU, READER_CPU_SECONDS},
    {RLIMIT_FSIZE, OUTPUT_MAX},
    {RLIMIT_CORE, 0}, /* a core would hold tenants' texts */
#if !defined(__SANITIZE_ADDRESS__)
    {RLIMIT_AS, READER_MEMORY}, /* a sanitizer reserves terabytes */
#endif
};

const struct confine_list reader_calls = {rules, countof(rules), limits, countof(limits)};

/* ---- documents ---- */

static bool take(struct str *rest, void *ret_struct, size_t size)
{
    if (rest->len < size)
        return false;
    memcpy(ret_struct, rest->ptr, size);
    *rest = str_slice(*rest, size, rest->len);
    return true;
}

static bool take_text(struct str *rest, size_t len, struct str *ret_text)
{
    if (rest->len < len)
        return false;
    *ret_text = str_slice(*rest, 0, len);
    *rest = str_slice(*rest, len, rest->len);
    return true;
}

static bool next_ask(struct str *rest, struct arena *arena, struct document_ask *ret_ask)
{
    struct reader_head head;
    if (!take(rest, &head, sizeof head) || !take_text(rest, head.title_len, &ret_ask->title) ||
        !take_text(rest, head.text_len, &ret_ask->text))
        return false;
    ret_ask->format = (enum doc_format)head.format;
    ret_ask->chunk_count = head.chunk_count;
    struct chunk *chunks = arena_array(arena, struct chunk, head.chunk_count + 1);
    for (size_t i = 0; i < head.chunk_count; i++) {
        struct reader_range range;
        if (!take(rest, &range, sizeof range) ||
            !take_text(rest, range.heading_len, &chunks[i].heading))
            return false;
        chunks[i].start = range.start;
        chunks[i].len = range.len;
    }
    ret_ask->chunks = head.has_chunks != 0 ? chunks : NULL;
    return true;
}

/* The frame is written at once: the daemon sees whole ones only, however this process ends. */
static int read_one(const struct document_ask *ask, struct err *err)
{
    AUTO_BUF struct buf frame = buf_with_limit(OUTPUT_MAX);
    struct err why = {0};
    uint32_t len = 0;
    buf_put(&frame, str_n((const char *)&len, sizeof len));
    if (document_read(ask, &frame, &why) < 0) {
        frame.len = sizeof len;
        document_put_failure(&frame, &why);
    }
    len = (uint32_t)(frame.len - sizeof len);
    memcpy(frame.ptr, &len, sizeof len);
    return fd_write_all(READER_OUT, buf_str(&frame), err);
}

int reader_main(void)
{
    struct err err = {0};
    AUTO_BUF struct buf input = buf_with_limit(INPUT_MAX);
    (void)prctl(PR_SET_NAME, "reader");
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C is its parent's to handle */
    confine_privileges(false);
    if (confine_calls(&reader_calls, &err) < 0)
        return EXIT_SETUP;
    if (buf_read_all(&input, READER_IN, &err) < 0)
        _exit(EXIT_INPUT);
    struct str rest = buf_str(&input);
    while (rest.len > 0) {
        AUTO_ARENA struct arena arena = {0};
        struct document_ask ask = {0};
        if (!next_ask(&rest, &arena, &ask) || read_one(&ask, &err) < 0)
            _exit(EXIT_INPUT);
    }
    _exit(0); /* no handlers: they would make other calls */
}
