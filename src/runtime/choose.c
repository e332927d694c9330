/* Which runtime is meant: by its name, by its language, or by the sandbox's own. */

#include "base/err.h"
#include "runtime/runtimes.h"

/* What people call languages. */
static struct str known_language(struct str language)
{
    static const struct {
        const char *word, *language;
    } words[] = {{"py", "python"},      {"sh", "bash"},         {"shell", "bash"},
                 {"js", "javascript"},  {"ts", "javascript"},   {"typescript", "javascript"},
                 {"tsx", "javascript"}, {"node", "javascript"}, {"ecmascript", "javascript"}};
    for (size_t i = 0; i < countof(words); i++)
        if (str_eq_nocase(language, str_of(words[i].word)))
            return str_of(words[i].language);
    return language;
}

static const struct runtime *find_row(struct str name)
{
    for (const struct runtime *row = runtimes; row->name != NULL; row++)
        if (str_eq(name, str_of(row->name)))
            return row;
    return NULL;
}

bool runtime_is_name(struct str name)
{
    return find_row(name) != NULL;
}

bool runtime_speaks(const struct runtime *runtime, struct str name, struct str language)
{
    return (name.len == 0 || str_eq(name, str_of(runtime->name))) &&
           (language.len == 0 || str_eq(language, str_of(runtime->name)) ||
            str_eq_nocase(known_language(language), str_of(runtime->language)));
}

bool runtime_repeats_interrupts(const struct runtime *runtime)
{
    return strcmp(runtime->language, "bash") == 0;
}

/* The advised one, else the first that this machine has; when it has none, what the one would need
 * that is best added. env.c has the same order in PATH. */
static int find_language(struct str language, const struct runtime **ret_runtime, struct err *err)
{
    bool is_known = false;
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        struct err ignored = {0};
        if (row->is_advised && runtime_speaks(row, (struct str){0}, language) &&
            runtime_find(str_of(row->name), ret_runtime, &ignored) == 0)
            return 0;
    }
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        struct err why = {0};
        /* One with a root of its own is had by its name: not every sandbox has that root. */
        if (row->source == RUNTIME_DEBIAN || !runtime_speaks(row, (struct str){0}, language))
            continue;
        if (runtime_find(str_of(row->name), ret_runtime, &why) == 0)
            return 0;
        if (!is_known || row->is_advised)
            *err = why;
        is_known = true;
    }
    return is_known ? -1
                    : err_set(err, ERR_NOT_FOUND,
                              "no runtime runs '%.*s'; the languages are python, javascript, "
                              "typescript and bash",
                              STR_ARG(str_slice(language, 0, 40)));
}

static int choose_find_named(struct str name, struct str language,
                             const struct runtime **ret_runtime, struct err *err)
{
    const struct runtime *row;
    if (runtime_find(name, &row, err) < 0)
        return -1;
    if (!runtime_speaks(row, name, language))
        return err_set(err, ERR_INVALID, "runtime '%s' does not run %.*s", row->name,
                       STR_ARG(str_slice(language, 0, 40)));
    *ret_runtime = row;
    return 0;
}

int runtime_choose(struct str name, struct str language, struct str own,
                   const struct runtime **ret_runtime, struct err *err)
{
    const struct runtime *row = find_row(own);
    if (name.len > 0)
        return choose_find_named(name, language, ret_runtime, err);
    if (language.len == 0)
        return runtime_find(own, ret_runtime, err);
    if (runtime_is_name(language))
        return runtime_find(language, ret_runtime, err);
    if (row != NULL && runtime_speaks(row, (struct str){0}, language))
        return runtime_find(own, ret_runtime, err);
    return find_language(language, ret_runtime, err);
}
