#include "engine/installer.h"

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

/* What the gate refused: installers repeat its words in the middle of theirs, and end with "no such
 * package". */
static struct str refusal_in(struct str output)
{
    size_t at = str_find(output, STR("Forbidden: blocked "));
    if (at == output.len)
        return (struct str){0};
    struct str said = str_slice(output, at + STR("Forbidden: ").len, output.len);
    size_t end = 0;
    while (end < said.len && strchr("\"\n\r)", said.ptr[end]) == NULL)
        end++;
    return str_slice(said, 0, MIN(end, (size_t)REASON_MAX));
}

struct str installer_reason(struct str output)
{
    struct str rest = output, line, found = STR("it said nothing"), refused = refusal_in(output);
    bool is_error = false;
    if (refused.len > 0)
        return refused;
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
