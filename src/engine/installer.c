#include "engine/installer.h"

#include "base/buf.h"

enum { REASON_MAX = 180 };

/* npm begins with a code, says what it means, and ends with where its log is. */
static bool is_telling_npm(struct str line)
{
    static const char *const heads[] = {"npm error ", "npm ERR! "}; /* since and before 10 */
    static const char *const dull[] = {"code ", "errno ",         "syscall ",
                                       "path ", "A complete log", "/"};
    for (size_t i = 0; i < countof(heads); i++) {
        if (!str_starts(line, str_of(heads[i])))
            continue;
        struct str rest = str_trim(str_slice(line, strlen(heads[i]), line.len));
        bool is_telling = rest.len > 0;
        for (size_t k = 0; k < countof(dull); k++)
            is_telling = is_telling && !str_starts(rest, str_of(dull[k]));
        return is_telling;
    }
    return false;
}

/* Of pip's and Deno's the last counts. */
static bool is_error_line(struct str line)
{
    return str_starts(line, STR("ERROR:")) || str_starts(line, STR("error:"));
}

/* What the gate answered behind these words: installers repeat them in the middle of theirs, and
 * end with "no such package". npm puts the address behind them, and the words once more. */
static struct str gate_said(struct str output, const char *before)
{
    size_t at = str_find(output, str_of(before));
    if (at == output.len)
        return (struct str){0};
    struct str said = str_slice(output, at + strlen(before), output.len);
    size_t end = 0;
    while (end < said.len && strchr("\"\n\r)", said.ptr[end]) == NULL)
        end++;
    /* pip prints OSError('...'): the quote before the bracket is its own. */
    end -= end > 0 && end < said.len && said.ptr[end] == ')' && said.ptr[end - 1] == '\'';
    said = str_slice(said, 0, end);
    said = str_slice(said, 0, str_find(said, STR(" - GET ")));
    said = str_slice(said, 0, str_find(said, STR(" for url: ")));
    return str_slice(said, 0, MIN(said.len, (size_t)REASON_MAX));
}

static struct str refusal_in(struct str output)
{
    struct str said = gate_said(output, "Forbidden: ");
    return str_starts(said, STR("blocked ")) ? said : (struct str){0};
}

/* It let the request pass, and the index could not be reached. */
static struct str failure_in(struct str output)
{
    struct str said = gate_said(output, "Bad Gateway: ");
    return said.len > 0 ? said : gate_said(output, "Gateway Timeout: ");
}

struct str installer_reason(struct str output)
{
    struct str rest = output, line, found = STR("the installer printed nothing"),
               refused = refusal_in(output), failed = failure_in(output);
    bool is_error = false;
    if (refused.len > 0 || failed.len > 0)
        return refused.len > 0 ? refused : failed;
    while (str_split(&rest, '\n', &line)) {
        line = str_trim(line);
        if (is_telling_npm(line))
            return str_slice(line, 0, REASON_MAX);
        bool says_error = is_error_line(line);
        if (line.len > 0 && (says_error || !is_error))
            found = line;
        is_error |= says_error;
    }
    return str_slice(found, 0, REASON_MAX);
}

/* --- The cause in plain words --- */

static bool holds(struct str output, const char *text)
{
    return str_find(output, str_of(text)) < output.len;
}

/* The first that is found is the cause: an installer that cannot reach its index says in the end
 * that there is no such package. `%s` is the group. */
static const struct {
    const char *sign, *told;
} causes[] = {
    {"No module named pip",
     "this server has no pip. Its administrator can install it (Debian: python3-pip)."},
    {"npm: this server has none",
     "this server has no npm. Its administrator can install it (Debian: npm)."},
    {"No space left on device",
     "the disk of the sandbox is full. Delete files, or give the sandbox a larger disk."},
    {"connection broken by", NULL},
    {"Max retries exceeded", NULL},
    {"EAI_AGAIN", NULL},
    {"ENOTFOUND", NULL},
    {"ECONNREFUSED", NULL},
    {"ETIMEDOUT", NULL},
    {"ECONNRESET", NULL},
    {"error sending request", NULL},
    {"require a different python version",
     "no version of it supports this Python. Try a sandbox of the runtime python3.13."},
    {"subprocess-exited-with-error", "it has no wheel for this Python, and building it from source "
                                     "failed. Ask for another version or another package."},
    {"Failed building wheel", "it has no wheel for this Python, and building it from source "
                              "failed. Ask for another version or another package."},
    {"gyp ERR!", "it has to be compiled, and that failed. Ask for another version or package."},
    {"(from versions: none)", "the index has no such package, or no version for this Python. Check "
                              "the name: a package can have another name than its module."},
    {"E404", "the registry has no such package. Check the name."},
    {"' does not exist.", "the registry has no such package. Check the name."},
};

/* pip names the versions that there are, npm what was asked for. */
static bool explain_version(struct str output, struct buf *out)
{
    struct str sign = STR("(from versions: ");
    size_t at = str_find(output, sign);
    if (at < output.len && !holds(output, "(from versions: none)")) {
        struct str list = str_slice(output, at + sign.len, output.len);
        list = str_slice(list, 0, str_find_char(list, ')'));
        list = str_slice(list, 0, str_find_char(list, '\n'));
        buf_printf(out, "no version matches. The index has %.*s%s.", (int)MIN(list.len, 100UL),
                   list.ptr, list.len > 100 ? " ..." : "");
        return true;
    }
    if (holds(output, "ETARGET"))
        buf_put_cstr(out, "no version matches. Ask for another version, or name no version.");
    return holds(output, "ETARGET");
}

static void explain(struct str output, const char *group, struct buf *out)
{
    struct str refused = refusal_in(output);
    if (refused.len > 0) {
        buf_printf(out, "%.*s. Allow the index with the network policy \"allow %s\".",
                   (int)MIN(refused.len, 120UL), refused.ptr, group);
        return;
    }
    struct str failed = failure_in(output);
    if (failed.len > 0) {
        buf_printf(out,
                   "the package index could not be reached: %.*s. Check its address ([packages]).",
                   (int)MIN(failed.len, 130UL), failed.ptr);
        return;
    }
    for (size_t i = 0; i < countof(causes); i++) {
        if (!holds(output, causes[i].sign))
            continue;
        if (causes[i].told != NULL)
            buf_put_cstr(out, causes[i].told);
        else
            buf_printf(out,
                       "the package index could not be reached. Check its address and the network "
                       "policy (\"allow %s\").",
                       group);
        return;
    }
    if (!explain_version(output, out)) {
        struct str reason = installer_reason(output);
        buf_printf(out, "the installer said: %.*s", STR_ARG(reason));
    }
}

bool installer_was_cut_off(struct str output)
{
    bool is_cut_off = refusal_in(output).len > 0 || failure_in(output).len > 0;
    for (size_t i = 0; i < countof(causes) && !is_cut_off; i++)
        is_cut_off = causes[i].told == NULL && holds(output, causes[i].sign);
    return is_cut_off;
}

void installer_explain(struct str output, const char *group, struct buf *out)
{
    AUTO_BUF struct buf text = {0};
    explain(output, group, &text);
    buf_put(out, str_slice(buf_str(&text), 0, INSTALLER_EXPLAINED_MAX));
}
