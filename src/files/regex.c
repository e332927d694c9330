/* Why two matchers. PCRE2's JIT is quick but backtracks, and its match limit counts only some of
 * its work, per place where a match may begin. So it gets short lines and a limit that shrinks with
 * their length. A line that is long or runs into the limit goes to pcre2_dfa_match, which follows
 * all possibilities at once; with ".*?" in front it needs a single pass, and its workspace bounds
 * what a character can cost. Look-around inside it starts further passes, which its match limit
 * counts. What exceeds that as well is too complex. */

#include "files/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/err.h"
#include "files/needle.h"

enum {
    NESTING_MAX = 64,
    CODE_MAX = 32768,     /* bytes of compiled pattern */
    JIT_LINE_MAX = 1024,  /* for patterns that repeat */
    JIT_WORK = 500000,    /* limit times length of line */
    DFA_WORKSPACE = 2000, /* ints; some hundred states at once */
    DFA_CALLS = 1 << 20,  /* look-arounds times length of line */
    HEAP_MAX_KIB = 8192,
};

struct regex {
    pcre2_code *code;
    pcre2_code *dfa; /* made at first use */
    pcre2_match_context *limits;
    pcre2_match_data *match;
    uint32_t options;
    struct buf pattern;
    bool repeats, dfa_failed, is_literal;
    char *needle;
    size_t needle_len;
    struct buf clean; /* a line made valid UTF-8 */
    size_t at;        /* of the last match */
    int workspace[DFA_WORKSPACE];
};

static int say_invalid(int code, size_t offset, struct err *err)
{
    char text[160];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text) < 0)
        (void)snprintf(text, sizeof text, "error %d", code);
    bool is_large = code == PCRE2_ERROR_PATTERN_TOO_LARGE ||
                    code == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP ||
                    code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_PATTERN_TOO_COMPLICATED;
    return err_set(err, is_large ? ERR_PATTERN_TOO_COMPLEX : ERR_INVALID_PATTERN,
                   "regular expression, character %zu: %s", offset + 1, text);
}

static pcre2_code *compile(struct str pattern, uint32_t options, struct err *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    assert(context != NULL);
    (void)pcre2_set_parens_nest_limit(context, NESTING_MAX);
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (compiled == NULL)
        (void)say_invalid(code, offset, err);
    return compiled;
}

static int check_compiled(const pcre2_code *code, struct err *err)
{
    uint32_t references = 0;
    size_t size = 0;
    (void)pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &references);
    (void)pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size);
    if (references > 0)
        return err_set(err, ERR_INVALID_PATTERN,
                       "back-references are not supported: they cannot be matched in bounded time");
    if (size > CODE_MAX)
        return err_set(err, ERR_PATTERN_TOO_COMPLEX,
                       "the regular expression is too large; use smaller repeat counts");
    return 0;
}

static int compile_regex(struct regex *regex, struct str pattern, struct err *err)
{
    regex->code = compile(pattern, regex->options | PCRE2_MATCH_INVALID_UTF, err);
    if (regex->code == NULL || check_compiled(regex->code, err) < 0)
        return -1;
    /* Where the JIT may not write code, pcre2_match interprets, under the same limits. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    regex->limits = pcre2_match_context_create(NULL);
    regex->match = pcre2_match_data_create(1, NULL);
    assert(regex->limits != NULL && regex->match != NULL);
    (void)pcre2_set_heap_limit(regex->limits, HEAP_MAX_KIB);
    (void)pcre2_set_depth_limit(regex->limits, 10000);
    return 0;
}

int regex_new(struct str pattern, bool ignore_case, bool literal, struct regex **ret_regex,
              struct err *err)
{
    if (pattern.len == 0)
        return err_set(err, ERR_INVALID_PATTERN, "the pattern is empty");
    if (pattern.len > REGEX_PATTERN_MAX)
        return err_set(err, ERR_PATTERN_TOO_COMPLEX, "the pattern has %zu bytes; the limit is %d",
                       pattern.len, REGEX_PATTERN_MAX);
    if (!str_is_utf8(pattern))
        return err_set(err, ERR_INVALID_PATTERN, "the pattern is not valid UTF-8");
    AUTO_REGEX struct regex *regex = mem_alloc(sizeof *regex);
    regex->options = PCRE2_UTF | (ignore_case ? PCRE2_CASELESS : 0);
    regex->options |= literal ? PCRE2_LITERAL : PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
    buf_put(&regex->pattern, pattern);
    for (size_t i = 0; i < pattern.len; i++)
        regex->repeats |= strchr("*+{?(", pattern.ptr[i]) != NULL && !literal;
    if (compile_regex(regex, pattern, err) < 0)
        return -1;
    regex->needle = mem_alloc(pattern.len);
    if (literal && !ignore_case) {
        memcpy(regex->needle, pattern.ptr, pattern.len);
        regex->needle_len = pattern.len;
        regex->is_literal = true;
    } else if (!ignore_case) {
        regex->is_literal = needle_of_pattern(pattern, regex->needle, &regex->needle_len);
    }
    *ret_regex = regex;
    regex = NULL;
    return 0;
}

struct regex *regex_free(struct regex *regex)
{
    if (regex == NULL)
        return NULL;
    pcre2_code_free(regex->code);
    pcre2_code_free(regex->dfa);
    pcre2_match_context_free(regex->limits);
    pcre2_match_data_free(regex->match);
    buf_done(&regex->pattern);
    buf_done(&regex->clean);
    free(regex->needle);
    free(regex);
    return NULL;
}

struct str regex_needle(const struct regex *regex)
{
    return str_n(regex->needle, regex->needle_len);
}

bool regex_is_literal(const struct regex *regex)
{
    return regex->is_literal;
}

/* "(?s:.*?)(?:PATTERN\n)": the newline ends a comment of an extended pattern. Elsewhere it would
 * be a character, so it is only put where there can be a comment. */
static bool make_dfa(struct regex *regex)
{
    if (regex->dfa != NULL || regex->dfa_failed)
        return regex->dfa != NULL;
    struct err ignored;
    AUTO_BUF struct buf text = {0};
    bool is_literal = (regex->options & PCRE2_LITERAL) != 0;
    bool may_comment = strstr(regex->pattern.ptr, "(?") != NULL &&
                       memchr(regex->pattern.ptr, '#', regex->pattern.len) != NULL;
    if (!is_literal && !may_comment) {
        buf_put_cstr(&text, "(?s:.*?)(?:");
        buf_put(&text, buf_str(&regex->pattern));
        buf_put_cstr(&text, ")");
        regex->dfa = compile(buf_str(&text), regex->options, &ignored);
    }
    regex->dfa_failed = regex->dfa == NULL;
    return regex->dfa != NULL;
}

/* The line with every byte that is no UTF-8 replaced: this matcher insists on valid text. */
static struct str make_valid(struct regex *regex, struct str line)
{
    if (str_is_utf8(line))
        return line;
    buf_clear(&regex->clean);
    while (line.len > 0) {
        size_t len = str_utf8_len(line);
        buf_put(&regex->clean, len == 0 ? STR("?") : str_slice(line, 0, len));
        line = str_slice(line, MAX(len, (size_t)1), line.len);
    }
    return buf_str(&regex->clean);
}

static int match_dfa(struct regex *regex, struct str line)
{
    if (!make_dfa(regex))
        return -1;
    line = make_valid(regex, line);
    uint32_t calls = (uint32_t)(DFA_CALLS / (line.len + 16)) + 16;
    (void)pcre2_set_match_limit(regex->limits, calls);
    int result = pcre2_dfa_match(regex->dfa, (PCRE2_SPTR)line.ptr, line.len, 0,
                                 PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST,
                                 regex->match, regex->limits, regex->workspace, DFA_WORKSPACE);
    if (result == PCRE2_ERROR_NOMATCH)
        return 0;
    return result >= 0 ? 1 : -1;
}

int regex_match(struct regex *regex, struct str line)
{
    line = str_slice(line, 0, REGEX_LINE_MAX);
    regex->at = SIZE_MAX;
    if (line.ptr == NULL)
        line.ptr = "";
    if (regex->repeats && line.len > JIT_LINE_MAX)
        return match_dfa(regex, line);
    (void)pcre2_set_match_limit(regex->limits, (uint32_t)(JIT_WORK / (line.len + 16)));
    int result =
        pcre2_match(regex->code, (PCRE2_SPTR)line.ptr, line.len, 0, 0, regex->match, regex->limits);
    if (result == PCRE2_ERROR_NOMATCH)
        return 0;
    if (result < 0)
        return match_dfa(regex, line);
    regex->at = pcre2_get_ovector_pointer(regex->match)[0];
    return 1;
}

size_t regex_match_at(const struct regex *regex)
{
    return regex->at;
}
