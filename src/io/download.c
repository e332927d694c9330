#include "io/download.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/err.h"
#include "base/fd.h"

enum { TRIES = 4, REDIRECTS = 5, CONNECT_SECONDS = 20, STALL_SECONDS = 30, PAUSE_US = 500000 };

struct running {
    const struct download *what;
    CURL *easy;
    uint64_t have; /* bytes of the file */
    struct err why;
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct running *running = ctx;
    size_t len = size * count;
    if (len > running->what->limit || running->have > running->what->limit - len) {
        (void)err_set(&running->why, ERR_TOO_LARGE, "more than %llu bytes",
                      (unsigned long long)running->what->limit);
        return 0;
    }
    if (fd_write_all(running->what->fd, str_n(bytes, len), &running->why) < 0)
        return 0;
    running->have += len;
    return len;
}

static int on_progress(void *ctx, curl_off_t total, UNUSED curl_off_t now, UNUSED curl_off_t up,
                       UNUSED curl_off_t up_now)
{
    struct running *running = ctx;
    curl_off_t from = 0;
    long status = 0;
    (void)curl_easy_getinfo(running->easy, CURLINFO_RESPONSE_CODE, &status);
    if (running->what->progress == NULL || total <= 0 || (status != 200 && status != 206))
        return 0;
    if (status == 206)
        from = (curl_off_t)running->have - now;
    running->what->progress(running->what->ctx, running->have, (uint64_t)(from + total));
    return 0;
}

static int download_prepare(struct running *running, struct err *err)
{
    struct stat st;
    CURL *easy = running->easy;
    if (fstat(running->what->fd, &st) < 0 || lseek(running->what->fd, 0, SEEK_END) < 0)
        return err_sys(err, errno, "inspect the partial download");
    running->have = (uint64_t)st.st_size;
    running->why = (struct err){0};
    curl_easy_reset(easy);
    (void)curl_easy_setopt(easy, CURLOPT_URL, running->what->url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    (void)curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandglass/" SG_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 64L);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, running);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, running);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)running->have);
    /* The host's directory of roots, libcurl's CAPATH, stays what it is. */
    if (running->what->extra_ca != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, running->what->extra_ca);
    return 0;
}

static int download_explain(struct running *running, CURLcode code, struct err *err)
{
    long status = 0;
    (void)curl_easy_getinfo(running->easy, CURLINFO_RESPONSE_CODE, &status);
    if (running->why.code != ERR_NONE) {
        *err = running->why;
        return -1;
    }
    if (code == CURLE_HTTP_RETURNED_ERROR)
        return err_set(err, status == 404 ? ERR_NOT_FOUND : ERR_UNAVAILABLE,
                       "the server answered %ld", status);
    return err_set(err, ERR_UNAVAILABLE, "%s", curl_easy_strerror(code));
}

/* What may well work the next time. */
static bool is_passing(struct running *running, CURLcode code)
{
    long status = 0;
    (void)curl_easy_getinfo(running->easy, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
           code == CURLE_OPERATION_TIMEDOUT || code == CURLE_SEND_ERROR ||
           (code == CURLE_HTTP_RETURNED_ERROR && (status >= 500 || status == 429));
}

/* The server does not support ranges, or the file is longer than the download: start again. */
static int begin_again(struct running *running, struct err *err)
{
    if (ftruncate(running->what->fd, 0) < 0)
        return err_sys(err, errno, "restart the download");
    return 0;
}

static int run(struct running *running, struct err *err)
{
    for (int left = TRIES;;) {
        long status = 0;
        if (download_prepare(running, err) < 0)
            return -1;
        CURLcode code = curl_easy_perform(running->easy);
        (void)curl_easy_getinfo(running->easy, CURLINFO_RESPONSE_CODE, &status);
        bool no_part = running->have > 0 && (code == CURLE_RANGE_ERROR || status == 416);
        if (code == CURLE_OK && !no_part)
            return 0;
        if (--left == 0 || running->why.code != ERR_NONE ||
            (!no_part && !is_passing(running, code)))
            return download_explain(running, code, err);
        if (no_part && begin_again(running, err) < 0)
            return -1;
        if (!no_part)
            (void)usleep(PAUSE_US);
    }
}

int download_run(const struct download *download, struct err *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl cannot be initialized");
    struct running running = {.what = download, .easy = curl_easy_init()};
    int done = running.easy == NULL ? err_set(err, ERR_INTERNAL, "libcurl cannot be initialized")
                                    : run(&running, err);
    curl_easy_cleanup(running.easy);
    curl_global_cleanup();
    return done;
}
